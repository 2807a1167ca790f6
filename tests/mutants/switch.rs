//! Writes the mutants of a list into a copy of the repository, all at once: each is behind `crate::mutated::is(N)`, where N is
//! its index in the list. So one build has all of them, and each test runs in seconds.
//!
//! mutants list FOLDER SOURCES prints the mutants of `own.rs` in the form of `cargo mutants --list --json`.
//!
//! mutants switch LIST LEFT_OUT FOLDER SOURCES ROOT [READ]... writes those of a list into the folder SOURCES of FOLDER. ROOT is
//! the file of the crate's root. The folders READ have what else is compiled with it. LEFT_OUT is a file with the indices of
//! mutants that do not compile, and the names of functions that stay `const`. Prints the indices of those that have no place:
//! in constants, in functions that constants call, in conditions with `let`, and in what is compiled for other systems, or
//! without a feature.

mod own;

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};

use proc_macro2::{LineColumn, Span, TokenStream, TokenTree};
use serde::Deserialize;
use syn::spanned::Spanned;
use syn::visit::{self, Visit};

#[derive(Deserialize)]
struct Mutant {
    file: PathBuf,
    span: Place,
    replacement: String,
    genre: Genre,
}

#[derive(Clone, Copy, Deserialize, Eq, Ord, PartialEq, PartialOrd)]
enum Genre {
    FnValue,
    BinaryOperator,
    UnaryOperator,
    MatchArm,
    MatchArmGuard,
    StructField,
    Statement,
    Bound,
    Swap,
    Constant,
    Number,
}

#[derive(Deserialize)]
struct Place {
    start: Position,
}

#[derive(Deserialize)]
struct Position {
    line: usize,
    column: usize,
}

/// A mutant's genre, line and column, and its index and replacement.
type Places = BTreeMap<(Genre, usize, usize), Vec<(usize, String)>>;

/// Text to insert. At one place, what ends the smaller range comes first, then what begins the larger one. Of equal ranges,
/// the one that was found first is the larger one.
struct Insertion {
    at: usize,
    order: (isize, isize),
    text: String,
}

struct Mutator<'s> {
    source: &'s str,
    places: Places,
    constant: &'s BTreeSet<String>,
    file: &'s Path,
    known: &'s own::Known,
    changes: &'s mut Changes,
    inserted: Vec<Insertion>,
}

/// The constants that are changed where they are used: each by its place, with the index, what follows its name, and whether it
/// was found in use.
type Changes = BTreeMap<(PathBuf, usize, usize), (usize, String, bool)>;

/// Whether the mutant with this index is the active one.
fn is(index: usize) -> String {
    format!("crate::mutated::is({index})")
}

fn bytes(span: Span) -> Range<usize> {
    span.byte_range()
}

/// The names in the tokens.
fn names(tokens: TokenStream, found: &mut BTreeSet<String>) {
    for token in tokens {
        match token {
            TokenTree::Group(group) => names(group.stream(), found),
            TokenTree::Ident(ident) => drop(found.insert(ident.to_string())),
            TokenTree::Punct(_) | TokenTree::Literal(_) => {}
        }
    }
}

/// What constants name, and what each `const fn` names.
#[derive(Default)]
struct Constants {
    named: BTreeSet<String>,
    functions: BTreeMap<String, BTreeSet<String>>,
}

impl Constants {
    fn value(&mut self, value: &dyn quote::ToTokens) {
        names(value.to_token_stream(), &mut self.named);
    }

    fn function(&mut self, signature: &syn::Signature, block: &syn::Block) {
        if signature.constness.is_some() {
            let named = self.functions.entry(signature.ident.to_string()).or_default();
            names(quote::ToTokens::to_token_stream(block), named);
        }
    }

    /// The functions that constants call.
    fn called(mut self) -> BTreeSet<String> {
        let mut called = BTreeSet::new();
        while let Some(name) = self.named.pop_first() {
            if let Some(names) = self.functions.remove(&name) {
                self.named.extend(names);
                called.insert(name);
            }
        }
        called
    }
}

impl<'ast> Visit<'ast> for Constants {
    fn visit_item_const(&mut self, item: &'ast syn::ItemConst) {
        self.value(&item.expr);
        self.value(&item.ty);
    }

    fn visit_impl_item_const(&mut self, item: &'ast syn::ImplItemConst) {
        self.value(&item.expr);
    }

    fn visit_trait_item_const(&mut self, item: &'ast syn::TraitItemConst) {
        self.value(&item.default.as_ref().map(|(_, value)| value));
    }

    fn visit_item_static(&mut self, item: &'ast syn::ItemStatic) {
        self.value(&item.expr);
    }

    fn visit_expr_const(&mut self, item: &'ast syn::ExprConst) {
        self.value(&item.block);
    }

    fn visit_expr_repeat(&mut self, item: &'ast syn::ExprRepeat) {
        self.value(&item.len);
    }

    fn visit_type_array(&mut self, item: &'ast syn::TypeArray) {
        self.value(&item.len);
    }

    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        self.function(&item.sig, &item.block);
        visit::visit_item_fn(self, item);
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        self.function(&item.sig, &item.block);
        visit::visit_impl_item_fn(self, item);
    }
}

impl Mutator<'_> {
    fn take(&mut self, genre: Genre, at: LineColumn) -> Vec<(usize, String)> {
        self.places.remove(&(genre, at.line, at.column.saturating_add(1))).unwrap_or_default()
    }

    fn around(&mut self, range: Range<usize>, before: String, after: &str) {
        let length = range.len().cast_signed();
        let found = self.inserted.len().cast_signed();
        self.inserted.push(Insertion { at: range.start, order: (isize::MAX - length, found), text: before });
        self.inserted.push(Insertion { at: range.end, order: (isize::MIN + length, -found), text: after.to_owned() });
    }

    fn text(&self, span: Span) -> &str {
        self.source.get(bytes(span)).unwrap_or_default()
    }

    /// Another value in place of the whole expression, for each of the mutants.
    fn instead(&mut self, span: Span, others: &[(usize, String)]) {
        if others.is_empty() {
            return;
        }
        let mut before = String::from("(");
        for (index, other) in others {
            before += &format!("if {} {{ {other} }} else ", is(*index));
        }
        before.push('{');
        self.around(bytes(span), before, "})");
    }

    fn function(&mut self, signature: &syn::Signature, block: &syn::Block) -> bool {
        if let Some(constant) = signature.constness {
            if self.constant.contains(&signature.ident.to_string()) {
                return false;
            }
            self.around(bytes(constant.span), "/*".to_owned(), "*/");
        }
        if let Some(first) = block.stmts.first() {
            for (index, value) in self.take(Genre::FnValue, first.span().start()) {
                let text = format!("if {} {{ return {value}; }} ", is(index));
                let at = bytes(block.brace_token.span.open()).end;
                self.inserted.push(Insertion { at, order: (0, 0), text });
            }
        }
        true
    }
}

/// Whether a condition has a `let`, which no parenthesis may enclose.
fn has_let(expression: &syn::Expr) -> bool {
    match expression {
        syn::Expr::Let(_) => true,
        syn::Expr::Binary(binary) => has_let(&binary.left) || has_let(&binary.right),
        _ => false,
    }
}

impl Mutator<'_> {
    /// Other arguments, or no bound.
    fn call(&mut self, call: &syn::Expr) {
        let (arguments, bounded) = match call {
            syn::Expr::Call(it) => (&it.args, None),
            syn::Expr::MethodCall(it) => (&it.args, own::bounded(it).map(|of| (of, it.method.span()))),
            _ => return,
        };
        let mut others = Vec::new();
        if let Some((of, at)) = bounded {
            let text = self.text(of.span()).to_owned();
            others.extend(self.take(Genre::Bound, at.start()).into_iter().map(|(index, _)| (index, text.clone())));
        }
        for at in own::alike(arguments) {
            let first = arguments.get(at).map(|it| it.span().start());
            let swapped = own::swapped(self.source, call, arguments, at);
            if let (Some(first), Some(swapped)) = (first, swapped) {
                others.extend(self.take(Genre::Swap, first).into_iter().map(|(index, _)| (index, swapped.clone())));
            }
        }
        self.instead(call.span(), &others);
    }
}

impl<'ast> Visit<'ast> for Mutator<'_> {
    fn visit_item(&mut self, item: &'ast syn::Item) {
        if !own::is_left_out(own::item_attributes(item)) {
            visit::visit_item(self, item);
        }
    }

    fn visit_stmt(&mut self, statement: &'ast syn::Stmt) {
        if own::is_left_out(own::statement_attributes(statement)) {
            return;
        }
        if own::is_droppable(statement) {
            for (index, _) in self.take(Genre::Statement, statement.span().start()) {
                self.around(bytes(statement.span()), format!("if !{} {{ ", is(index)), " }");
            }
        }
        visit::visit_stmt(self, statement);
    }

    fn visit_field_value(&mut self, value: &'ast syn::FieldValue) {
        if !own::is_left_out(&value.attrs) {
            visit::visit_field_value(self, value);
        }
    }

    fn visit_expr(&mut self, expression: &'ast syn::Expr) {
        // Around each other, the larger first.
        self.call(expression);
        if let syn::Expr::Path(path) = expression
            && let Some((file, line, column)) = self.known.declared(&path.path, self.file)
            && let Some((index, change, used)) = self.changes.get_mut(&(file.to_owned(), line, column))
        {
            *used = true;
            let other = (*index, format!("{}{change}", self.source.get(bytes(path.span())).unwrap_or_default()));
            self.instead(path.span(), &[other]);
        }
        visit::visit_expr(self, expression);
        for literal in own::numbers(expression) {
            let others = self.take(Genre::Number, literal.span().start());
            self.instead(literal.span(), &others);
        }
    }

    fn visit_item_const(&mut self, _: &'ast syn::ItemConst) {}

    fn visit_impl_item_const(&mut self, _: &'ast syn::ImplItemConst) {}

    fn visit_trait_item_const(&mut self, _: &'ast syn::TraitItemConst) {}

    fn visit_item_static(&mut self, _: &'ast syn::ItemStatic) {}

    // Lengths of arrays and arguments of types are constants.
    fn visit_type(&mut self, _: &'ast syn::Type) {}

    fn visit_generic_argument(&mut self, _: &'ast syn::GenericArgument) {}

    fn visit_expr_repeat(&mut self, repeat: &'ast syn::ExprRepeat) {
        self.visit_expr(&repeat.expr);
    }

    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        if self.function(&item.sig, &item.block) {
            visit::visit_block(self, &item.block);
        }
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        if !own::is_left_out(&item.attrs) && self.function(&item.sig, &item.block) {
            visit::visit_block(self, &item.block);
        }
    }

    fn visit_trait_item_fn(&mut self, item: &'ast syn::TraitItemFn) {
        if let Some(block) = &item.default
            && self.function(&item.sig, block)
        {
            visit::visit_block(self, block);
        }
    }

    fn visit_expr_binary(&mut self, binary: &'ast syn::ExprBinary) {
        if !has_let(&binary.left) && !has_let(&binary.right) {
            let (left, right) = (self.text(binary.left.span()).to_owned(), self.text(binary.right.span()).to_owned());
            let mutants = self.take(Genre::BinaryOperator, binary.op.span().start());
            let other = |(index, operator)| (index, format!("{left} {operator} {right}"));
            let others: Vec<_> = mutants.into_iter().map(other).collect();
            self.instead(binary.span(), &others);
        }
        visit::visit_expr_binary(self, binary);
    }

    fn visit_expr_unary(&mut self, unary: &'ast syn::ExprUnary) {
        let operand = self.text(unary.expr.span()).to_owned();
        let mutants = self.take(Genre::UnaryOperator, unary.op.span().start());
        let others: Vec<_> =
            mutants.into_iter().map(|(index, operator)| (index, format!("{operator}{operand}"))).collect();
        self.instead(unary.span(), &others);
        visit::visit_expr_unary(self, unary);
    }

    fn visit_arm(&mut self, arm: &'ast syn::Arm) {
        if own::is_left_out(&arm.attrs) {
            return;
        }
        if arm.guard.as_ref().is_some_and(|(_, guard)| has_let(guard)) {
            return visit::visit_arm(self, arm);
        }
        let deleted: Vec<_> =
            self.take(Genre::MatchArm, arm.span().start()).iter().map(|it| format!("!{}", is(it.0))).collect();
        match &arm.guard {
            Some((_, guard)) => {
                let fixed = self.take(Genre::MatchArmGuard, guard.span().start());
                let mut before: String = deleted.iter().map(|it| format!("{it} && ")).collect();
                for (index, value) in &fixed {
                    before +=
                        &if value == "true" { format!("({} || ", is(*index)) } else { format!("(!{} && ", is(*index)) };
                }
                before.push('(');
                self.around(bytes(guard.span()), before, &")".repeat(fixed.len().saturating_add(1)));
            }
            None if !deleted.is_empty() => {
                let at = bytes(arm.pat.span()).end;
                self.inserted.push(Insertion { at, order: (0, 0), text: format!(" if {}", deleted.join(" && ")) });
            }
            None => {}
        }
        visit::visit_arm(self, arm);
    }

    fn visit_expr_struct(&mut self, value: &'ast syn::ExprStruct) {
        if let Some(base) = &value.rest {
            for field in &value.fields {
                let (path, base) = (self.text(value.path.span()).to_owned(), self.text(base.span()).to_owned());
                let member = self.text(field.member.span()).to_owned();
                let mutants = self.take(Genre::StructField, field.span().start());
                let other = |(index, _)| (index, format!("let base: {path} = {base}; base.{member}"));
                let others: Vec<_> = mutants.into_iter().map(other).collect();
                self.instead(field.expr.span(), &others);
                if field.colon_token.is_none() && !others.is_empty() {
                    let at = bytes(field.expr.span()).start;
                    self.inserted.push(Insertion { at, order: (0, 0), text: format!("{member}: ") });
                }
            }
        }
        visit::visit_expr_struct(self, value);
    }
}

/// All Rust files below the folder.
fn files(folder: &Path, found: &mut Vec<PathBuf>) -> Result<(), Box<dyn Error>> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            files(&path, found)?;
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
    Ok(())
}

const MUTATED: &str = r#"
//! Which mutant is active.
use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::sync::OnceLock;

const UNKNOWN: u32 = u32::MAX;
const RECORDED: u32 = u32::MAX - 1;
static ACTIVE: AtomicU32 = AtomicU32::new(UNKNOWN);
static REACHED: [AtomicBool; COUNT] = [const { AtomicBool::new(false) }; COUNT];
static FILE: OnceLock<File> = OnceLock::new();

/// Whether the mutant of this index is active: the variable `MCP_MUTANT`. In the folder `MCP_MUTANTS`, one file per process
/// lists those that were asked for.
pub fn is(index: u32) -> bool {
    let active = ACTIVE.load(Ordering::Relaxed);
    if active < RECORDED { active == index } else { unknown(index) }
}

#[cold]
fn unknown(index: u32) -> bool {
    if ACTIVE.load(Ordering::Relaxed) == UNKNOWN {
        let active = match std::env::var_os("MCP_MUTANTS") {
            Some(folder) => {
                let path = std::path::PathBuf::from(folder).join(std::format!("{}.reached", std::process::id()));
                FILE.get_or_init(|| OpenOptions::new().create(true).append(true).open(path).unwrap());
                RECORDED
            }
            None => std::env::var("MCP_MUTANT").ok().and_then(|index| index.parse().ok()).unwrap_or(RECORDED - 1),
        };
        ACTIVE.store(active, Ordering::Relaxed);
        return is(index);
    }
    if !REACHED[index as usize].swap(true, Ordering::Relaxed) {
        let _ = FILE.get().unwrap().write_all(std::format!("{index}\n").as_bytes());
    }
    false
}
"#;

/// Prints the mutants of `own.rs`.
fn list(folder: &Path, sources: &Path) -> Result<(), Box<dyn Error>> {
    let mut paths = Vec::new();
    files(&folder.join(sources), &mut paths)?;
    paths.sort();
    let mut found = Vec::new();
    for path in &paths {
        let source = fs::read_to_string(path)?;
        let mut finder = own::Finder::new(&source, path.strip_prefix(folder)?);
        finder.visit_file(&syn::parse_file(&source)?);
        found.append(&mut finder.found);
    }
    println!("{}", serde_json::Value::Array(found));
    Ok(())
}

/// Writes the mutants of a list into the sources.
fn switch(
    list: &Path,
    left_out: &Path,
    folder: &Path,
    sources: &Path,
    root: &Path,
    read: &[PathBuf],
) -> Result<(), Box<dyn Error>> {
    let mutants: Vec<Mutant> = serde_json::from_slice(&fs::read(list)?)?;
    let left_out = fs::read_to_string(left_out)?;
    let without: BTreeSet<usize> = left_out.lines().filter_map(|line| line.parse().ok()).collect();

    let mut paths = Vec::new();
    files(&folder.join(sources), &mut paths)?;
    let known = own::constants(&paths, folder)?;
    let mut all = paths.clone();
    for other in read {
        files(&folder.join(other), &mut all)?;
    }
    let mut constants = Constants::default();
    for path in &all {
        if let Ok(file) = syn::parse_file(&fs::read_to_string(path)?) {
            constants.visit_file(&file);
        }
    }
    constants.named.extend(left_out.lines().map(str::to_owned));
    let constant = constants.called();

    let mut places: BTreeMap<&Path, Places> = BTreeMap::new();
    let mut changes = Changes::new();
    for (index, mutant) in mutants.iter().enumerate().filter(|(index, _)| !without.contains(index)) {
        let Position { line, column } = mutant.span.start;
        if mutant.genre == Genre::Constant {
            changes.insert((mutant.file.clone(), line, column), (index, mutant.replacement.clone(), false));
            continue;
        }
        let of_file = places.entry(&mutant.file).or_default();
        of_file.entry((mutant.genre, line, column)).or_default().push((index, mutant.replacement.clone()));
    }
    for path in &paths {
        let source = fs::read_to_string(path)?;
        let file = path.strip_prefix(folder)?;
        let places = places.remove(file).unwrap_or_default();
        let mut mutator = Mutator {
            source: &source,
            places,
            constant: &constant,
            file,
            known: &known,
            changes: &mut changes,
            inserted: Vec::new(),
        };
        mutator.visit_file(&syn::parse_file(&source)?);
        for (index, _) in mutator.places.values().flatten() {
            println!("{index}");
        }
        mutator.inserted.sort_by_key(|insertion| (insertion.at, insertion.order));
        let (mut text, mut end) = (String::new(), 0);
        for insertion in &mutator.inserted {
            text += source.get(end..insertion.at).unwrap_or_default();
            text += &insertion.text;
            end = insertion.at;
        }
        text += source.get(end..).unwrap_or_default();
        fs::write(path, text)?;
    }
    for (index, _, _) in changes.values().filter(|(_, _, is_used)| !is_used) {
        println!("{index}");
    }
    fs::write(
        folder.join(sources).join("mutated.rs"),
        format!("{MUTATED}\nconst COUNT: usize = {};\n", mutants.len()),
    )?;
    let root = folder.join(root);
    fs::write(&root, fs::read_to_string(&root)? + "\n#[doc(hidden)]\npub mod mutated;\n")?;
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<PathBuf> = std::env::args_os().skip(1).map(PathBuf::from).collect();
    match &*arguments {
        [what, folder, sources] if what == Path::new("list") => list(folder, sources),
        [what, mutants, left_out, folder, sources, root, read @ ..] if what == Path::new("switch") => {
            switch(mutants, left_out, folder, sources, root, read)
        }
        _ => Err("mutants list FOLDER SOURCES, or mutants switch LIST LEFT_OUT FOLDER SOURCES ROOT [READ]...".into()),
    }
}
