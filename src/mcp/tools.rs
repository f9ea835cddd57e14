//! The tools, a file each: its arguments, and what it does. Their place here is their place in the list.

mod compare_sessions;
mod explain_log;
mod list_sessions;
mod plan_command;
mod predict_change;
mod read_session;
mod show_step;
mod start_again;
mod start_command;
mod stop_session;
mod wait_for_session;

use super::tool::ToolSpec;

pub(super) static ALL: [ToolSpec; 11] = [
    list_sessions::TOOL,
    read_session::TOOL,
    explain_log::TOOL,
    show_step::TOOL,
    plan_command::TOOL,
    predict_change::TOOL,
    compare_sessions::TOOL,
    wait_for_session::TOOL,
    start_again::TOOL,
    start_command::TOOL,
    stop_session::TOOL,
];
