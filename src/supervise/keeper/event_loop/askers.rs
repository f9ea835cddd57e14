//! Follows who has the terminal open, and hands the relay what that tells.

use super::KeeperLoop;
use crate::supervise::keeper::relay::Relay;
use std::time::Instant;

impl KeeperLoop {
    pub(super) fn act_on_askers(&mut self, now: Instant) {
        let askers = self.relay.as_mut().and_then(Relay::askers);
        let Some(askers) = askers.filter(|askers| askers.due().is_some_and(|due| due <= now))
        else {
            return;
        };
        let lives = self.runs.last().is_some_and(|run| run.pid().is_some());
        // Of the tree only where it has changed who has it open.
        let stays = lives && askers.is_still_there();
        let tree = if lives && !stays {
            self.tree()
        } else {
            Vec::new()
        };
        let Some(relay) = &mut self.relay else {
            return;
        };
        if !stays && let Some(askers) = relay.askers() {
            askers.find(&tree);
        }
        if let Some(terminal) = self.runs.last().and_then(|run| run.terminal.as_ref())
            && lives
        {
            relay.mirror(&terminal.pty);
        }
    }
}
