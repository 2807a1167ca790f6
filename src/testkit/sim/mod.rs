//! Virtual time: `driven` is what a simulation needs of a client or a hub, `link` are the properties and faults of a
//! connection, `world` holds the state, `carry` moves bytes, `node` serves the clients, `journal` records them, and `run` lets time pass.

mod carry;
mod driven;
#[cfg(feature = "journal")]
mod journal;
mod link;
mod node;
mod run;
mod world;

pub use driven::{Arrival, Carried, Collector, Driven, Embedder, Port, Step};
pub use link::{Fault, Link};
pub use run::Runaway;
pub use world::{NodeId, Sim};
