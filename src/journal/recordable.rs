use alloc::boxed::Box;
use alloc::string::String;
use core::fmt::{Debug, Display};

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::line::json;
use super::masks::Masks;
use super::part::{Part, StreamKey};
use super::{ApplyError, Input, JournalBinding};
use crate::{Client, RequestId, Time};

/// What can be recorded: a [`Client`] over any binding, and a [`Hub`](crate::host::hub::Hub). It is implemented in this
/// crate only.
pub trait Recordable: Subject {}

/// What a journal needs from a client or a hub.
pub trait Subject {
    /// An input or a command, as a value.
    type Input: Clone + Debug + Serialize + DeserializeOwned;
    /// What an accepted command returns.
    type Accepted: Debug + Serialize;
    /// Why an input was not applied.
    type Error: Debug + Display;
    /// What the embedder has to do next.
    type Action: Debug + Serialize;

    /// Applies an input.
    fn give(&mut self, now: Time, input: Self::Input) -> Result<Self::Accepted, Self::Error>;

    /// The next action.
    fn next(&mut self) -> Option<Self::Action>;

    /// Whether it is a command, whose result is recorded.
    fn is_command(input: &Self::Input) -> bool;

    /// What an input is to the bytes from a server.
    fn part(input: &Self::Input) -> Part;

    /// The bytes of a chunk.
    fn bytes(input: &mut Self::Input) -> Option<&mut Box<[u8]>>;

    /// The stream that nothing is reported of after this action.
    fn abandoned(action: &Self::Action) -> Option<StreamKey>;

    /// An input as it is recorded.
    fn shown(&self, input: &Self::Input, masks: &mut Masks) -> String;
}

impl<B: JournalBinding> Recordable for Client<B> {}

impl<B: JournalBinding> Subject for Client<B> {
    type Input = Input;
    type Accepted = Option<RequestId>;
    type Error = ApplyError;
    type Action = B::Action;

    fn give(&mut self, now: Time, input: Input) -> Result<Option<RequestId>, ApplyError> {
        self.apply(now, input)
    }

    fn next(&mut self) -> Option<B::Action> {
        self.poll()
    }

    fn is_command(input: &Input) -> bool {
        input.is_command()
    }

    fn part(input: &Input) -> Part {
        input.part(0)
    }

    fn bytes(input: &mut Input) -> Option<&mut Box<[u8]>> {
        input.bytes()
    }

    fn abandoned(action: &B::Action) -> Option<StreamKey> {
        B::abandoned(action).map(|exchange| (0, exchange))
    }

    fn shown(&self, input: &Input, _: &mut Masks) -> String {
        json(input)
    }
}
