//! Gives the shared library its versioned soname; the number is `RK_ABI_VERSION`.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    if std::env::var("CARGO_CFG_TARGET_OS").as_deref() == Ok("linux") {
        println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,librangekeeper.so.0");
    }
}
