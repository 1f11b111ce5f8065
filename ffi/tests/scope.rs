//! The types of `src/scope.rs` refuse what would outlive a call. It has to be a compiler that says so: these programs
//! are compiled, and the wrong ones must fail with the error that their mistake deserves.

use std::path::Path;
use std::process::Command;
use std::{env, fs};

/// Compiles a program that consists of the module and `body`. Returns what the compiler writes if it refuses.
fn compile(name: &str, body: &str) -> Result<(), String> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let program = format!(
        "#![allow(dead_code, unused_imports, non_camel_case_types, unreachable_pub)]
        #[path = {:?}] mod result;
        #[path = {:?}] mod scope;
        use scope::{{Array, Buffer, Out, Scope, borrow, enter, slice, text}};
        static NUMBER: u32 = 7;
        {body}
        fn main() {{}}",
        source.join("result.rs"),
        source.join("scope.rs"),
    );
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let path = folder.join(format!("{name}.rs"));
    fs::write(&path, program).expect("the target folder can be written");
    let compiler = env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let output = Command::new(compiler)
        .args(["--edition=2024", "--emit=metadata", "--out-dir"])
        .args([folder, &path])
        .output()
        .expect("there is a compiler");
    if output.status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&output.stderr).into_owned()) }
}

#[test]
fn what_ends_with_the_call_compiles() {
    let body = "fn read() -> u32 { enter(|scope| unsafe { borrow(scope, &NUMBER) }.map_or(0, |number| *number)) }
        fn write(to: *mut u32) { enter(|scope| if let Ok(out) = unsafe { Out::new(scope, to) } { out.write(1) }) }
        fn give(to: *mut *mut u32) { enter(|scope| if let Ok(out) = unsafe { Out::new(scope, to) } { out.give(1) }) }";
    assert_eq!(compile("allowed", body), Ok(()));
}

#[test]
fn what_would_outlive_the_call_does_not_compile() {
    for (name, error, body) in [
        (
            "returned",
            "lifetime may not live long enough",
            "fn f() { enter(|scope| unsafe { borrow(scope, &NUMBER) }.ok()); }",
        ),
        (
            "kept",
            "E0521",
            "fn f() { let mut kept = None; enter(|scope| kept = unsafe { borrow(scope, &NUMBER) }.ok()); drop(kept); }",
        ),
        (
            "static_slice",
            "E0521",
            "fn keep(_: &'static [u32]) {}
            fn f() { enter(|scope| keep(unsafe { slice(scope, &NUMBER, 1) }.ok().unwrap())) }",
        ),
        (
            "static_text",
            "E0521",
            "fn keep(_: &'static str) {}
            fn f() { enter(|scope| keep(unsafe { text(scope, b\"x\".as_ptr(), 1) }.ok().unwrap())) }",
        ),
        (
            "out",
            "lifetime may not live long enough",
            "fn f(to: *mut u32) { enter(|scope| unsafe { Out::new(scope, to) }.ok()); }",
        ),
        (
            "array",
            "lifetime may not live long enough",
            "fn f(to: *mut u32) { enter(|scope| unsafe { Array::new(scope, to, 1) }.ok()); }",
        ),
        (
            "buffer",
            "lifetime may not live long enough",
            "fn f(to: *mut u8, len: *mut usize) { enter(|scope| unsafe { Buffer::new(scope, to, 1, len) }.ok()); }",
        ),
        ("own_scope", "E0423", "fn f() { let scope = Scope(()); }"),
        (
            "not_shared",
            "`Rc<u32>: Send`",
            "fn f(to: *mut *mut std::rc::Rc<u32>) {
                enter(|scope| if let Ok(out) = unsafe { Out::new(scope, to) } { out.give(std::rc::Rc::new(1)) })
            }",
        ),
        (
            "not_sync",
            "`Cell<u32>: Sync`",
            "fn f(to: *mut *mut std::cell::Cell<u32>) {
                enter(|scope| if let Ok(out) = unsafe { Out::new(scope, to) } { out.give(std::cell::Cell::new(1)) })
            }",
        ),
    ] {
        let refused = compile(name, body).expect_err(name);
        assert!(refused.contains(error), "{name}: {refused}");
    }
}
