//! Measures the clients against the server of this package; `../run` starts it.

fn main() {
    end_to_end::run(None);
}
