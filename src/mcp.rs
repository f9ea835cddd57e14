//! `oomph mcp`: what oomph knows of sessions, for agents, over the Model Context Protocol on standard input and output.
//!
//! It reads unless it was started with permission to do more (`permission.rs`). Each tool is a file of `tools/`; what one
//! answers is what the subcommand of the same purpose prints with `--json`, worked out in `query`, bounded and with the fields
//! marked that hold text of others (`answer.rs`). The protocol is the SDK's (`server.rs`), on lines that are read and written
//! here (`transport.rs`). A training that was started outlives the server: its keeper has it (`launched.rs`).

mod answer;
mod launched;
mod resources;
mod scope;
mod server;
mod tool;
mod tools;
mod transport;

pub use tool::Permissions;

use rmcp::ServiceExt;
use scope::ReadScope;
use server::Server;
use std::path::PathBuf;
use transport::StdioTransport;

/// Blocking work at once: reading recordings and predictions. More would only take memory from the training.
const WORKERS: usize = 4;

/// Serves until the client closes standard input.
///
/// # Errors
/// A recording to serve is none, or the runtime cannot be started.
pub fn serve(permissions: Permissions, recordings: &[PathBuf]) -> anyhow::Result<()> {
    let scope = ReadScope::new(recordings)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .max_blocking_threads(WORKERS)
        .build()?;
    let (transport, writer) = StdioTransport::start()?;
    let server = Server::new(scope, permissions, WORKERS);
    runtime.block_on(async {
        // Where nobody ever says `initialize`, there was nothing to serve.
        if let Ok(service) = server.serve(transport).await {
            let _ = service.waiting().await;
        }
    });
    runtime.shutdown_background();
    writer.finish();
    Ok(())
}
