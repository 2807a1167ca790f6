#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    mcp_proto_fuzz::decode(bytes);
});
