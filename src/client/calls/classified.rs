use alloc::boxed::Box;
use alloc::vec::Vec;

use super::super::request_table::InputRounds;
use super::super::{InputRequest, Outcome};
use crate::jsonrpc::Json;

/// The server's response to a request, classified.
pub(super) enum Classified<'a> {
    Complete(Outcome),
    Invalid(Box<str>),
    /// It requires these inputs of the embedder.
    Input(Box<InputRounds>, Vec<InputRequest>),
    /// It requires another attempt.
    Retry(Box<InputRounds>),
    /// The server runs it as this task.
    Task(Json<'a>),
}
