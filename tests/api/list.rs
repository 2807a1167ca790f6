//! Prints the public items of the crate whose rustdoc JSON is the first argument, one per line. Of a derived trait only the
//! `impl` is printed, without its methods.

use std::collections::BTreeSet;
use std::error::Error;
use std::path::Path;

use public_api::Builder;

fn items(json: &Path, derived: bool) -> Result<Vec<String>, public_api::Error> {
    let builder = Builder::from_rustdoc_json(json).omit_blanket_impls(true).omit_auto_trait_impls(true);
    let api = builder.omit_auto_derived_impls(!derived).build()?;
    Ok(api.items().map(ToString::to_string).collect())
}

fn main() -> Result<(), Box<dyn Error>> {
    let json = std::env::args_os().nth(1).ok_or("usage: api FILE")?;
    let written: BTreeSet<_> = items(json.as_ref(), false)?.into_iter().collect();
    for item in items(json.as_ref(), true)? {
        if item.starts_with("impl") || written.contains(&item) {
            println!("{item}");
        }
    }
    Ok(())
}
