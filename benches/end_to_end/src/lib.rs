//! What the binaries share: the clients, the server's process, and the measuring.

mod bare;
mod cases;
mod client;
mod measure;
mod ours;
mod peer;
mod rmcp;

pub use cases::run;
