//! The surface that C sees hangs together: source, header, symbol list and versions name the same functions, each of
//! them guarded and documented. `run.sh` compares the symbols of the shared library with the list.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use syn::{Expr, FnArg, Item, ItemFn, Pat, PatType, Stmt};

/// What an entry point may consist of: one call of one of these.
const GUARDS: [&str; 3] = ["guard", "guard_error", "guard_or"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Every exported function of the source, by its name.
fn entry_points() -> BTreeMap<String, ItemFn> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(root().join("ffi/src")).expect("ffi/src is there") {
        let path = entry.expect("ffi/src can be read").path();
        // soundness/, tests that export nothing; and what only the Go back end has, which is no part of the C ABI.
        if path.is_dir() || path.ends_with("memory.rs") || path.ends_with("exchange.rs") {
            continue;
        }
        let text = fs::read_to_string(&path).expect("a source file can be read");
        for item in syn::parse_file(&text).expect("the source compiles, so it parses").items {
            if let Item::Fn(function) = item
                && is_exported(&function)
            {
                found.insert(function.sig.ident.to_string(), function);
            }
        }
    }
    assert!(found.len() >= 80, "only {} entry points found: the search is broken", found.len());
    found
}

fn is_exported(function: &ItemFn) -> bool {
    let unmangled = function.attrs.iter().any(|attribute| {
        attribute.path().is_ident("unsafe")
            && attribute.parse_args::<syn::Path>().is_ok_and(|path| path.is_ident("no_mangle"))
    });
    // Neither without the other: a forgotten no_mangle would else go unnoticed.
    assert_eq!(unmangled, function.sig.abi.is_some(), "{}: no_mangle and extern belong together", function.sig.ident);
    unmangled
}

/// Whether the body is one call of a guard and nothing else, apart from an `unsafe` block around it.
fn is_guarded(statements: &[Stmt]) -> bool {
    let [Stmt::Expr(expression, None)] = statements else { return false };
    match expression {
        Expr::Unsafe(block) => is_guarded(&block.block.stmts),
        Expr::Call(call) => {
            let Expr::Path(callee) = &*call.func else { return false };
            let is_plain = |argument: &Expr| match argument {
                Expr::Path(_) | Expr::Closure(_) | Expr::Lit(_) => true,
                Expr::Tuple(tuple) => tuple.elems.is_empty(),
                // What is returned after a panic: a static text.
                Expr::MethodCall(method) => method.method == "as_ptr" && method.args.is_empty(),
                _ => false,
            };
            GUARDS.iter().any(|guard| callee.path.is_ident(guard)) && call.args.iter().all(is_plain)
        }
        _ => false,
    }
}

fn doc(function: &ItemFn) -> String {
    let lines = function.attrs.iter().filter_map(|attribute| match &attribute.meta {
        syn::Meta::NameValue(meta) if meta.path.is_ident("doc") => match &meta.value {
            Expr::Lit(syn::ExprLit { lit: syn::Lit::Str(text), .. }) => Some(text.value().trim().to_owned()),
            _ => None,
        },
        _ => None,
    });
    lines.collect::<Vec<_>>().join("\n").trim().to_owned()
}

/// The comment before each function of the header, by the function's name.
fn header_functions(header: &str) -> BTreeMap<String, String> {
    let mut functions = BTreeMap::new();
    let mut comment = String::new();
    let mut in_comment = false;
    for line in header.lines() {
        if let Some(text) = line.strip_prefix("/** ").and_then(|rest| rest.strip_suffix(" */")) {
            text.clone_into(&mut comment);
        } else if line.starts_with("/**") {
            in_comment = true;
            comment.clear();
        } else if line.starts_with(" */") {
            in_comment = false;
        } else if in_comment {
            comment.push_str(line.strip_prefix(" *").unwrap_or(line).trim());
            comment.push('\n');
        } else if let Some(name) = declared_function(line) {
            functions.insert(name.to_owned(), comment.trim().to_owned());
            comment.clear();
        }
    }
    functions
}

fn declared_function(line: &str) -> Option<&str> {
    // Inline functions are no symbols.
    if line.starts_with([' ', '#', '}', '/']) || line.starts_with("static inline ") {
        return None;
    }
    let before = &line[..line.find('(')?];
    let start = before.rfind(|c: char| !c.is_ascii_alphanumeric() && c != '_').map_or(0, |at| at + 1);
    before[start..].starts_with("rk_").then_some(&before[start..])
}

fn symbol_list() -> BTreeSet<String> {
    let text = read("ffi/symbols.txt");
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines.is_sorted(), "ffi/symbols.txt is not sorted");
    lines.into_iter().map(str::to_owned).collect()
}

#[test]
fn every_entry_point_is_guarded() {
    let bare: Vec<_> = entry_points().into_iter().filter(|(_, function)| !is_guarded(&function.block.stmts)).collect();
    let names: Vec<_> = bare.iter().map(|(name, _)| name).collect();
    assert!(names.is_empty(), "their body is not one call of a guard: {names:?}");
}

#[test]
fn errors_name_parameters_as_the_header_spells_them() {
    let mut names = 0;
    for entry in fs::read_dir(root().join("ffi/src")).expect("ffi/src is there") {
        let text = fs::read_to_string(entry.expect("ffi/src can be read").path()).unwrap_or_default();
        for function in text.split("pub unsafe extern \"C\" fn ").skip(1) {
            let (signature, rest) = function.split_once(") ->").unwrap_or((function, ""));
            let body = &rest[..rest.find("\n}\n").unwrap_or(rest.len())];
            for part in body.split(".named(\"").skip(1) {
                let name = part.split('"').next().unwrap_or_default();
                assert!(signature.contains(&format!("{name}: ")), "{name} is no parameter of {signature}");
                names += 1;
            }
        }
    }
    assert!(names >= 50, "only {names} names found: the search is broken");
}

#[test]
fn the_guard_check_can_fail() {
    let bodies = [
        ("{ guard(|| Ok(())) }", true),
        ("{ unsafe { guard_error(error, || Ok(())) } }", true),
        ("{ guard_or((), || drop(x)) }", true),
        ("{ rk_result::Ok }", false),
        ("{ let x = may_panic(); guard(|| Ok(())) }", false),
        ("{ guard(|| Ok(())); rk_result::Ok }", false),
        ("{ guard_or(may_panic(), || 1) }", false),
        ("{ other(|| Ok(())) }", false),
        ("{ }", false),
    ];
    for (body, expected) in bodies {
        let block: syn::Block = syn::parse_str(body).expect("a block");
        assert_eq!(is_guarded(&block.stmts), expected, "{body}");
    }
}

#[test]
fn every_entry_point_is_documented_in_source_and_header() {
    let header = header_functions(&read("include/rangekeeper.h"));
    for (name, function) in entry_points() {
        let doc = doc(&function);
        assert!(!doc.is_empty(), "{name} is not documented");
        for promised in ["Any thread", "RK_RESULT_NULL_POINTER", "RK_RESULT_POISONED", "RK_RESULT_ENDED"] {
            assert!(
                !doc.contains(promised),
                "{name}: its documentation repeats what the preamble promises: {promised}"
            );
        }
        let in_header = header.get(&name).unwrap_or_else(|| panic!("{name} is not in the header"));
        assert_eq!(*in_header, doc, "{name}: header and source differ; run ffi/header.sh");
    }
}

#[test]
fn source_header_and_symbol_list_name_the_same_functions() {
    let listed = symbol_list();
    let source: BTreeSet<_> = entry_points().into_keys().collect();
    let header: BTreeSet<_> = header_functions(&read("include/rangekeeper.h")).into_keys().collect();
    assert_eq!(source, listed, "source and ffi/symbols.txt differ");
    assert_eq!(header, listed, "include/rangekeeper.h and ffi/symbols.txt differ");
}

/// The header without its comments, and the text of these.
fn code_and_comments(header: &str) -> (String, String) {
    let (mut code, mut comments) = (String::new(), String::new());
    for part in header.split("/*") {
        // The first part has no comment, every other one begins with one.
        let (comment, rest) = part.split_once("*/").unwrap_or(("", part));
        comments.push_str(comment);
        code.push_str(rest);
    }
    (code, comments)
}

fn words(text: &str) -> BTreeSet<&str> {
    text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').collect()
}

/// The names in comments that nothing in the code has. A trailing underscore stands for all names that begin so, and
/// `rk_X` for every handle.
fn unknown_names<'a>(code: &str, comments: &'a str) -> Vec<&'a str> {
    let known = words(code);
    let is_known = |name: &str| match name.strip_suffix('_') {
        Some(_) => known.range(name..).next().is_some_and(|first| first.starts_with(name)),
        None => known.contains(name) || name == "rk_X" || name.starts_with("rk_X_"),
    };
    let is_name = |word: &&str| word.starts_with("rk_") || word.starts_with("RK_");
    words(comments).into_iter().filter(is_name).filter(|name| !is_known(name)).collect()
}

/// The words between backticks in a comment that are no parameter of its function.
fn unknown_parameters<'a>(comment: &'a str, parameters: &[String]) -> Vec<&'a str> {
    let quoted = comment.split('`').skip(1).step_by(2).map(|word| word.trim_start_matches('*'));
    quoted.filter(|word| !parameters.iter().any(|parameter| parameter == word)).collect()
}

#[test]
fn comments_name_what_there_is() {
    let header = read("include/rangekeeper.h");
    let (code, comments) = code_and_comments(&header);
    assert_eq!(unknown_names(&code, &comments), [""; 0]);
    for (name, function) in entry_points() {
        let parameters = function.sig.inputs.iter().filter_map(|input| match input {
            FnArg::Typed(PatType { pat, .. }) => match &**pat {
                Pat::Ident(parameter) => Some(parameter.ident.to_string()),
                _ => None,
            },
            FnArg::Receiver(_) => None,
        });
        assert_eq!(unknown_parameters(&doc(&function), &parameters.collect::<Vec<_>>()), [""; 0], "{name}");
    }
}

#[test]
fn the_check_of_names_can_fail() {
    let (code, comments) =
        code_and_comments("/* RK_A_*, RK_B_*, rk_x, rk_gone, rk_X_free */ rk_x(RK_A_ONE); /** RK_A */");
    assert_eq!(unknown_names(&code, &comments), ["RK_A", "RK_B_", "rk_gone"]);
    assert_eq!(unknown_parameters("`a` and `*b`, `c`", &["a".into(), "b".into()]), ["c"]);
}

#[test]
fn versions_agree() {
    let header = read("include/rangekeeper.h");
    let number = |name: &str| {
        let line = header.lines().find_map(|line| line.strip_prefix(&format!("#define {name} ")));
        line.unwrap_or_else(|| panic!("{name} is not in the header")).to_owned()
    };
    let parts = ["RK_VERSION_MAJOR", "RK_VERSION_MINOR", "RK_VERSION_PATCH"].map(number);
    assert_eq!(parts.join("."), env!("CARGO_PKG_VERSION"));
    let soname = format!("-soname,librangekeeper.so.{}\"", number("RK_ABI_VERSION"));
    assert!(read("ffi/build.rs").contains(&soname), "soname and RK_ABI_VERSION differ");
}

#[test]
fn misuse_is_tested_at_every_entry_point() {
    let text = read("ffi/tests/misuse.c");
    for name in symbol_list() {
        assert!(text.contains(&format!("{name}(")), "ffi/tests/misuse.c does not call {name}");
    }
}

/// The words in a line of code that begin an exported item of this kind of source.
fn items(folder: &str, extension: &str, begins: &[&str]) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut folders = vec![root().join(folder)];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("a folder of sources is there") {
            let path = entry.expect("a folder of sources can be read").path();
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            // Of Go, the package itself.
            if path.is_dir() && extension == "rs" {
                folders.push(path);
            } else if name.ends_with(&format!(".{extension}")) && !name.ends_with("_test.go") {
                let text = fs::read_to_string(&path).expect("a source can be read");
                let names = text.lines().filter_map(|line| begins.iter().find_map(|begin| line.strip_prefix(begin)));
                let word =
                    |rest: &str| rest.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').next().map(str::to_owned);
                found.extend(names.filter_map(word).filter(|word| !word.is_empty()));
            }
        }
    }
    found
}

/// A name without what the languages write differently: `rk_ip_address` is `IpAddress` and `IPAddress`.
fn folded(name: &str) -> String {
    name.strip_prefix("rk_").unwrap_or(name).replace('_', "").to_lowercase()
}

#[test]
fn a_thing_has_one_name_in_rust_c_and_go() {
    let rust: BTreeSet<_> = ["core/src", "bootstrap/src"]
        .iter()
        .flat_map(|folder| items(folder, "rs", &["pub struct ", "pub enum ", "pub type ", "pub trait ", "pub fn "]))
        .collect();
    let c = items("include", "h", &["typedef struct ", "typedef union ", "typedef uint32_t ", "typedef uint8_t "]);
    let go = items("go-bindings", "go", &["type "]);
    let go: BTreeSet<_> = go.into_iter().filter(|name| name.starts_with(|c: char| c.is_ascii_uppercase())).collect();
    let contributing = read("CONTRIBUTING.md");
    let table = contributing.split("| Rust | C | Go |\n|---|---|---|\n").nth(1).expect("the table of names");
    let rows: Vec<Vec<Vec<&str>>> = table
        .lines()
        .take_while(|line| line.starts_with('|'))
        .map(|line| line.split('|').skip(1).map(|cell| cell.split('`').skip(1).step_by(2).collect()).collect())
        .collect();
    let header = read("include/rangekeeper.h");
    let [in_rust, in_go, in_c] =
        [&rust, &go, &c].map(|names| names.iter().map(|name| folded(name)).collect::<BTreeSet<_>>());
    // What has another name elsewhere, by the table.
    let mut listed = BTreeSet::new();
    for row in &rows {
        for name in &row[0] {
            let item = name.split("::").find(|part| rust.contains(*part));
            assert!(item.is_some(), "the table of names: Rust has no {name}");
        }
        assert!(
            row[1].iter().all(|name| words(&header).contains(name)),
            "the table of names: C has not all of {:?}",
            row[1]
        );
        assert!(row[2].iter().all(|name| go.contains(*name)), "the table of names: Go has not all of {:?}", row[2]);
        listed.extend(row[1].iter().chain(&row[2]).map(|name| folded(name)));
    }
    let handles: Vec<_> = items("include", "h", &["typedef struct "])
        .into_iter()
        .filter(|name| header.contains(&format!("typedef struct {name} {name};")))
        .collect();
    let in_both = |name: &str| in_rust.contains(name) && in_go.contains(name);
    let other: Vec<_> =
        handles.iter().filter(|name| !listed.contains(&folded(name)) && !in_both(&folded(name))).collect();
    assert!(handles.len() >= 10 && other.is_empty(), "handles of C with another name in Rust or Go: {other:?}");
    let in_either = |name: &str| in_rust.contains(name) || in_c.contains(name);
    let other: Vec<_> = go
        .iter()
        .filter(|name| !name.ends_with("Error") && !listed.contains(&folded(name)) && !in_either(&folded(name)))
        .collect();
    assert!(go.len() >= 50 && other.is_empty(), "types of Go with another name in Rust and C: {other:?}");
}
