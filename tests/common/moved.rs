use mcp_proto::{Binding, Client, Moved, Secrets};

/// The client after a move to another process.
pub(crate) fn moved<B: Binding>(client: &Client<B>, binding: B, how: Moved) -> Client<B> {
    let text = serde_json::to_string(&client.snapshot(Secrets::Included)).unwrap();
    let snapshot = serde_json::from_str(&text).unwrap();
    Client::from_snapshot(binding, client.options().clone(), &snapshot, how).unwrap()
}
