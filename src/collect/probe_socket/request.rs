//! What a probe can be asked to do, on the connection that it reports over. It acts on nothing else: a
//! request is made when the user presses a key that says what it costs.

use crate::units::Pid;
use serde::Serialize;
use std::path::PathBuf;
use tokio::sync::broadcast;

/// Requests that a connection may be behind: a person presses keys slower than that.
const WAITING: usize = 16;

/// What a probe is asked for, as a line of the wire.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "request", rename_all = "snake_case")]
pub enum ProbeRequest {
    /// Who keeps memory alive: the training waits meanwhile.
    Retainers,
    /// PyTorch's own snapshot, saved in this directory.
    Snapshot { directory: PathBuf },
}

/// The way to the connections there are, and will be.
#[derive(Debug, Clone)]
pub struct ProbeRequests(broadcast::Sender<(Pid, ProbeRequest)>);

impl Default for ProbeRequests {
    fn default() -> ProbeRequests {
        ProbeRequests(broadcast::channel(WAITING).0)
    }
}

impl ProbeRequests {
    /// Asks the probe of one process, if it is connected.
    pub fn ask(&self, pid: Pid, request: ProbeRequest) {
        // Without any connection nobody is there to be asked.
        let _ = self.0.send((pid, request));
    }

    pub(super) fn subscribe(&self) -> RequestReceiver {
        RequestReceiver(self.0.subscribe())
    }
}

/// The requests as one connection hears them.
pub(super) struct RequestReceiver(broadcast::Receiver<(Pid, ProbeRequest)>);

impl RequestReceiver {
    /// The next line for this process; never, once nobody can ask any more.
    pub(super) async fn next(&mut self, pid: Option<Pid>) -> Vec<u8> {
        loop {
            match self.0.recv().await {
                Ok((of, request)) if Some(of) == pid => {
                    // A path that is no text cannot be written as JSON; nor is it asked for.
                    if let Ok(mut line) = serde_json::to_vec(&request) {
                        line.push(b'\n');
                        return line;
                    }
                }
                Ok(_) | Err(broadcast::error::RecvError::Lagged(_)) => {}
                Err(broadcast::error::RecvError::Closed) => std::future::pending().await,
            }
        }
    }
}
