//! Explores every order of as many operations as the first argument says, from the starts whose names begin with the second
//! one, and prints the numbers of states.

fn main() {
    let mut arguments = std::env::args().skip(1);
    let depth = arguments.next().and_then(|depth| depth.parse().ok()).expect("a depth");
    let only = arguments.next().unwrap_or_default();
    mcp_proto_fuzz::explored(depth, &only, |line| print!("{line}"));
}
