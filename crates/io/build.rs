//! Gives the library the name that programs look for: another one where its calls change.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libwattio_io.so.0");
}
