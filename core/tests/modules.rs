//! The documentation of the crate names every module.

use std::fs;
use std::path::Path;

#[test]
fn the_front_page_names_every_module() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/lib.rs");
    let text = fs::read_to_string(source).expect("src/lib.rs");
    let (documentation, code): (Vec<&str>, Vec<&str>) = text.lines().partition(|line| line.starts_with("//!"));
    let documentation = documentation.join("\n");
    let modules = code.iter().filter_map(|line| line.strip_prefix("pub mod ")?.strip_suffix(';'));
    let missing: Vec<&str> = modules
        .filter(|module| {
            !documentation.contains(&format!("[`{module}`]")) && !documentation.contains(&format!("({module})"))
        })
        .collect();
    assert!(code.iter().filter(|line| line.starts_with("pub mod ")).count() > 10);
    assert!(missing.is_empty(), "{missing:?}");
}
