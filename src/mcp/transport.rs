//! Lines of JSON on standard input and output.
//!
//! The SDK's own reader drops a line that is too long or no JSON, and its sender waits for ever. Here each such line has an
//! error as its answer, with the request's ID where one can be told; what is read is bounded, and so are the requests that are
//! worked on at once.

use rmcp::RoleServer;
use rmcp::model::{
    ClientJsonRpcMessage, ClientNotification, ClientRequest, ErrorData, JsonRpcMessage, RequestId,
    ServerJsonRpcMessage,
};
use rmcp::transport::Transport;
use serde_json::Value;
use std::collections::HashSet;
use std::io::{self, BufRead, BufReader, Write};
use std::sync::mpsc as blocking;
use std::thread::{self, JoinHandle};
use std::time::Duration;
use tokio::sync::mpsc;

/// The longest line that is read: a log for `explain_log` fits, and nothing that fills the memory.
const LONGEST_LINE: usize = 4 << 20;
/// Requests that are worked on at once.
const MOST_AT_ONCE: usize = 64;
/// Lines that wait to be read by us, or by the client.
const WAITING: usize = 16;
/// How long a client that has closed its end may still take to read the last answers.
const LAST_ANSWERS: Duration = Duration::from_secs(2);

/// The other requests that the protocol has names for; one of these names that does not parse has wrong parameters.
const METHODS: [&str; 9] = [
    "initialize",
    "ping",
    "tools/list",
    "tools/call",
    "resources/list",
    "resources/read",
    "resources/templates/list",
    "prompts/list",
    "completion/complete",
];

/// A line as it was read.
#[derive(Debug, PartialEq, Eq)]
enum InputLine {
    Whole(Vec<u8>),
    TooLong,
}

pub(super) struct StdioTransport {
    lines: mpsc::Receiver<InputLine>,
    out: mpsc::Sender<String>,
    /// The requests that have no answer yet.
    open: HashSet<RequestId>,
    /// Whether a request was seen: before it, a notification ends the SDK's handshake.
    has_begun: bool,
}

/// The thread that writes the answers.
pub(super) struct AnswerWriter {
    thread: JoinHandle<()>,
    done: blocking::Receiver<()>,
}

impl AnswerWriter {
    /// Waits until the last answer is written, but not for a client that no longer reads.
    pub fn finish(self) {
        if self.done.recv_timeout(LAST_ANSWERS).is_ok() {
            let _ = self.thread.join();
        }
    }
}

impl StdioTransport {
    /// On this process's streams, each on a thread: standard input may be a pipe, a socket or a file.
    pub fn start() -> io::Result<(StdioTransport, AnswerWriter)> {
        let (lines_in, lines) = mpsc::channel(WAITING);
        let (out, answers) = mpsc::channel(WAITING);
        let (told, done) = blocking::channel();
        thread::Builder::new()
            .name("mcp-input".into())
            .spawn(move || {
                read_lines(BufReader::new(io::stdin()), |line| {
                    lines_in.blocking_send(line).is_ok()
                });
            })?;
        let thread = thread::Builder::new()
            .name("mcp-output".into())
            .spawn(move || {
                write_lines(answers, io::stdout());
                let _ = told.send(());
            })?;
        let transport = StdioTransport {
            lines,
            out,
            open: HashSet::new(),
            has_begun: false,
        };
        Ok((transport, AnswerWriter { thread, done }))
    }

    /// Whether the message is for the SDK; otherwise what is answered, if anything.
    fn accept(&mut self, message: &ClientJsonRpcMessage) -> Result<(), Option<Refusal>> {
        match message {
            JsonRpcMessage::Request(request) => {
                let refuse = |error| Err(Some(Refusal(Some(request.id.clone()), error)));
                if let ClientRequest::CustomRequest(custom) = &request.request
                    && METHODS.contains(&custom.method.as_str())
                {
                    let words = format!("the parameters of {} are wrong", custom.method);
                    return refuse(ErrorData::invalid_params(words, None));
                }
                if self.open.contains(&request.id) {
                    let words = "a request with this id is still being answered";
                    return refuse(ErrorData::invalid_request(words, None));
                }
                if self.open.len() >= MOST_AT_ONCE {
                    let words = format!("more than {MOST_AT_ONCE} requests at once");
                    return refuse(ErrorData::invalid_request(words, None));
                }
                self.has_begun = true;
                self.open.insert(request.id.clone());
                Ok(())
            }
            JsonRpcMessage::Notification(_) if !self.has_begun => Err(None),
            JsonRpcMessage::Notification(told) => {
                // The SDK sends no answer to what was cancelled.
                if let ClientNotification::CancelledNotification(cancelled) = &told.notification
                    && let Some(id) = &cancelled.params.request_id
                {
                    self.open.remove(id);
                }
                Ok(())
            }
            // Nothing is ever asked of the client.
            JsonRpcMessage::Response(_) | JsonRpcMessage::Error(_) => Err(None),
        }
    }
}

impl Transport<RoleServer> for StdioTransport {
    type Error = io::Error;

    fn send(
        &mut self,
        message: ServerJsonRpcMessage,
    ) -> impl Future<Output = io::Result<()>> + Send + 'static {
        match &message {
            JsonRpcMessage::Response(response) => self.open.remove(&response.id),
            JsonRpcMessage::Error(error) => {
                error.id.as_ref().is_some_and(|id| self.open.remove(id))
            }
            JsonRpcMessage::Request(_) | JsonRpcMessage::Notification(_) => false,
        };
        let text = serde_json::to_string(&message);
        let out = self.out.clone();
        async move {
            out.send(text?)
                .await
                .map_err(|_| io::ErrorKind::BrokenPipe.into())
        }
    }

    async fn receive(&mut self) -> Option<ClientJsonRpcMessage> {
        loop {
            let refused = match self.lines.recv().await? {
                InputLine::TooLong => Some(Refusal(
                    None,
                    ErrorData::invalid_request(
                        format!("the line is longer than {} MiB", LONGEST_LINE >> 20),
                        None,
                    ),
                )),
                InputLine::Whole(line) => match parse(&line) {
                    Err(refused) => refused,
                    Ok(message) => match self.accept(&message) {
                        Ok(()) => return Some(message),
                        Err(refused) => refused,
                    },
                },
            };
            if let Some(Refusal(id, error)) = refused {
                let answer = ServerJsonRpcMessage::error(error, id);
                let text = serde_json::to_string(&answer).ok()?;
                // A client that reads nothing is read no further.
                self.out.send(text).await.ok()?;
            }
        }
    }

    async fn close(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// What is answered to a line that is no request.
#[derive(Debug)]
struct Refusal(Option<RequestId>, ErrorData);

/// A line as a message; what is answered to one that is none, if anything.
fn parse(line: &[u8]) -> Result<ClientJsonRpcMessage, Option<Refusal>> {
    if line.iter().all(u8::is_ascii_whitespace) {
        return Err(None);
    }
    let value: Value = serde_json::from_slice(line).map_err(|error| {
        let words = format!("no JSON: {error}");
        Some(Refusal(None, ErrorData::parse_error(words, None)))
    })?;
    let id = value
        .get("id")
        .and_then(|id| serde_json::from_value::<RequestId>(id.clone()).ok());
    let is_notification =
        value.get("method").is_some_and(Value::is_string) && value.get("id").is_none();
    serde_json::from_value(value).map_err(|_| match is_notification {
        // Nobody answers a notification, also not one that is not known.
        true => None,
        false => Some(Refusal(
            id,
            ErrorData::invalid_request("no request of JSON-RPC 2.0", None),
        )),
    })
}

/// Gives each line to `take` until that declines or the input ends. What follows the last newline is no line.
fn read_lines(mut input: impl BufRead, mut take: impl FnMut(InputLine) -> bool) {
    let (mut line, mut is_too_long) = (Vec::new(), false);
    loop {
        let chunk = match input.fill_buf() {
            Ok(chunk) => chunk,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(_) => return,
        };
        if chunk.is_empty() {
            return;
        }
        let end = chunk.iter().position(|byte| *byte == b'\n');
        let part = &chunk[..end.unwrap_or(chunk.len())];
        if line.len() + part.len() > LONGEST_LINE {
            is_too_long = true;
            line = Vec::new();
        }
        if !is_too_long {
            line.extend_from_slice(part);
        }
        let used = part.len() + usize::from(end.is_some());
        input.consume(used);
        if end.is_some() {
            let whole = std::mem::take(&mut line);
            let read = match std::mem::take(&mut is_too_long) {
                true => InputLine::TooLong,
                false => InputLine::Whole(whole),
            };
            if !take(read) {
                return;
            }
        }
    }
}

fn write_lines(mut answers: mpsc::Receiver<String>, mut out: impl Write) {
    while let Some(mut answer) = answers.blocking_recv() {
        answer.push('\n');
        if out
            .write_all(answer.as_bytes())
            .and_then(|()| out.flush())
            .is_err()
        {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(input: &[u8]) -> Vec<InputLine> {
        let mut read = Vec::new();
        read_lines(input, |line| {
            read.push(line);
            true
        });
        read
    }

    #[test]
    fn a_line_that_is_too_long_is_dropped_and_the_next_one_read() {
        let long = vec![b'x'; LONGEST_LINE + 1];
        let input = [b"{}\n", long.as_slice(), b"\n[]\nrest"].concat();
        assert_eq!(
            lines(&input),
            [
                InputLine::Whole(b"{}".into()),
                InputLine::TooLong,
                InputLine::Whole(b"[]".into())
            ]
        );
    }

    fn refused(line: &[u8]) -> Option<(Option<String>, i32)> {
        let Refusal(id, error) = parse(line).expect_err("a refusal")?;
        Some((id.map(|id| id.to_string()), error.code.0))
    }

    #[test]
    fn what_is_no_request_has_an_error_that_says_so() {
        let deep = [vec![b'['; 5000], vec![b']'; 5000]].concat();
        assert_eq!(refused(b"{oops"), Some((None, -32700)));
        assert_eq!(refused(b"{\"a\": \"\xff\xfe\"}"), Some((None, -32700)));
        assert_eq!(refused(&deep), Some((None, -32700)));
        assert_eq!(refused(b"[]"), Some((None, -32600)));
        assert_eq!(refused(b"17"), Some((None, -32600)));
        assert_eq!(
            refused(br#"{"jsonrpc":"1.0","id":7,"method":"ping"}"#),
            Some((Some("7".into()), -32600))
        );
        assert_eq!(refused(br#"{"jsonrpc":"1.0","method":"x"}"#), None);
        assert_eq!(refused(b"  "), None);
        assert!(parse(br#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#).is_ok());
    }
}
