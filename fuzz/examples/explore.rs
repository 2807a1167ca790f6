//! Explores every order of as many operations as the first argument says, and prints the numbers of states.

fn main() {
    let depth = std::env::args().nth(1).and_then(|depth| depth.parse().ok()).expect("a depth");
    print!("{}", mcp_proto_fuzz::explored(depth));
}
