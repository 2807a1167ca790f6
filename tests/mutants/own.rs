//! The mutants that `cargo mutants` does not know: a statement, or a bound of a number, is dropped; two arguments change
//! places; a constant or a number is another one.

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};

use quote::ToTokens as _;
use serde_json::{Value, json};
use syn::punctuated::Punctuated;
use syn::spanned::Spanned as _;
use syn::visit::{self, Visit};
use syn::{BinOp, Expr, Lit, Stmt, Token};

/// As much of a changed text as a name shows.
const SHOWN: usize = 70;
/// Longer calls are not written a second time with other arguments.
const CALL: usize = 400;

/// A `cfg` that does not hold where all features are enabled, on Linux, outside tests; and what is a test.
pub fn is_left_out(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().any(|attribute| match &attribute.meta {
        syn::Meta::List(list) if list.path.is_ident("cfg") => {
            list.parse_args::<syn::Meta>().is_ok_and(|condition| !holds(&condition))
        }
        meta => meta.path().segments.last().is_some_and(|last| last.ident == "test"),
    })
}

fn holds(condition: &syn::Meta) -> bool {
    match condition {
        syn::Meta::Path(path) => path.is_ident("unix"),
        syn::Meta::NameValue(pair) if pair.path.is_ident("target_os") => pair.value == syn::parse_quote!("linux"),
        syn::Meta::NameValue(pair) => pair.path.is_ident("feature"),
        syn::Meta::List(list) => {
            let parse = Punctuated::<syn::Meta, Token![,]>::parse_terminated;
            let Ok(all) = list.parse_args_with(parse) else { return true };
            let mut all = all.iter().map(holds);
            match list.path.get_ident().map(ToString::to_string).as_deref() {
                Some("any") => all.any(|it| it),
                Some("not") => !all.all(|it| it),
                _ => all.all(|it| it),
            }
        }
    }
}

pub fn item_attributes(item: &syn::Item) -> &[syn::Attribute] {
    match item {
        syn::Item::Fn(item) => &item.attrs,
        syn::Item::Impl(item) => &item.attrs,
        syn::Item::Mod(item) => &item.attrs,
        syn::Item::Trait(item) => &item.attrs,
        syn::Item::Const(item) => &item.attrs,
        _ => &[],
    }
}

pub fn statement_attributes(statement: &Stmt) -> &[syn::Attribute] {
    match statement {
        Stmt::Local(local) => &local.attrs,
        Stmt::Item(item) => item_attributes(item),
        Stmt::Expr(expression, _) => expression_attributes(expression),
        Stmt::Macro(_) => &[],
    }
}

fn expression_attributes(expression: &Expr) -> &[syn::Attribute] {
    match expression {
        Expr::Assign(it) => &it.attrs,
        Expr::Block(it) => &it.attrs,
        Expr::Call(it) => &it.attrs,
        Expr::ForLoop(it) => &it.attrs,
        Expr::If(it) => &it.attrs,
        Expr::Match(it) => &it.attrs,
        Expr::MethodCall(it) => &it.attrs,
        Expr::Return(it) => &it.attrs,
        _ => &[],
    }
}

/// A statement that is a call whose value nobody uses, or an assignment.
pub fn is_droppable(statement: &Stmt) -> bool {
    match statement {
        Stmt::Expr(expression, Some(_)) => match expression {
            Expr::Assign(_) => true,
            Expr::Binary(binary) => is_assignment(&binary.op),
            other => is_call(other),
        },
        Stmt::Local(local) => {
            matches!(local.pat, syn::Pat::Wild(_))
                && local.init.as_ref().is_some_and(|it| it.diverge.is_none() && is_call(&it.expr))
        }
        _ => false,
    }
}

fn is_call(expression: &Expr) -> bool {
    match expression {
        Expr::Call(_) | Expr::MethodCall(_) => true,
        Expr::Await(inner) => is_call(&inner.base),
        Expr::Try(inner) => is_call(&inner.expr),
        _ => false,
    }
}

const fn is_assignment(operator: &BinOp) -> bool {
    matches!(
        operator,
        BinOp::AddAssign(_)
            | BinOp::SubAssign(_)
            | BinOp::MulAssign(_)
            | BinOp::DivAssign(_)
            | BinOp::RemAssign(_)
            | BinOp::BitXorAssign(_)
            | BinOp::BitAndAssign(_)
            | BinOp::BitOrAssign(_)
            | BinOp::ShlAssign(_)
            | BinOp::ShrAssign(_)
    )
}

/// What a method bounds.
pub fn bounded(call: &syn::ExprMethodCall) -> Option<&Expr> {
    let arguments = match call.method.to_string().as_str() {
        "min" | "max" => 1,
        "clamp" => 2,
        _ => return None,
    };
    (call.args.len() == arguments).then_some(&*call.receiver)
}

type Arguments = Punctuated<Expr, Token![,]>;

/// The places of arguments that look like the next one, and are another text.
pub fn alike(arguments: &Arguments) -> Vec<usize> {
    let alike = |(first, second): (&Expr, &Expr)| {
        shape(first).is_some_and(|it| Some(it) == shape(second))
            && first.to_token_stream().to_string() != second.to_token_stream().to_string()
    };
    let pairs = arguments.iter().zip(arguments.iter().skip(1)).enumerate();
    pairs.filter(|(_, pair)| alike(*pair)).map(|(at, _)| at).collect()
}

fn shape(argument: &Expr) -> Option<u8> {
    match argument {
        Expr::Lit(_) => Some(0),
        Expr::Reference(it) => shape(&it.expr).map(|_| if it.mutability.is_some() { 7 } else { 6 }),
        // Values of variables, fields and short calls are often of one type.
        Expr::Path(_) | Expr::Field(_) => Some(1),
        Expr::Call(_) | Expr::MethodCall(_) => Some(2),
        Expr::Unary(_) => Some(3),
        Expr::Binary(_) => Some(4),
        Expr::Index(_) => Some(5),
        _ => None,
    }
}

/// The call's text with an argument and the next one in each other's places.
pub fn swapped(source: &str, call: &Expr, arguments: &Arguments, at: usize) -> Option<String> {
    let (first, second) =
        (arguments.get(at)?.span().byte_range(), arguments.get(at.checked_add(1)?)?.span().byte_range());
    let whole = call.span().byte_range();
    let parts = [whole.start..first.start, second.clone(), first.end..second.start, first, second.end..whole.end];
    parts.into_iter().map(|part| source.get(part)).collect()
}

/// An integer that is another one: twice as large, and one more.
pub fn changed(literal: &syn::LitInt) -> Option<String> {
    let value: u128 = literal.base10_parse().ok()?;
    Some(format!("{}{}", value.checked_mul(2)?.checked_add(1)?, literal.suffix()))
}

/// The integers that are compared, or are the number of a duration.
pub fn numbers(expression: &Expr) -> Vec<&syn::LitInt> {
    let candidates: Vec<&Expr> = match expression {
        Expr::Binary(binary)
            if matches!(
                binary.op,
                BinOp::Lt(_) | BinOp::Le(_) | BinOp::Gt(_) | BinOp::Ge(_) | BinOp::Eq(_) | BinOp::Ne(_)
            ) =>
        {
            vec![&binary.left, &binary.right]
        }
        Expr::Call(call) => match &*call.func {
            Expr::Path(path)
                if path.path.segments.last().is_some_and(|it| it.ident.to_string().starts_with("from_")) =>
            {
                call.args.iter().collect()
            }
            _ => Vec::new(),
        },
        _ => Vec::new(),
    };
    let literal = |it| match it {
        &Expr::Lit(syn::ExprLit { lit: Lit::Int(ref literal), .. }) => Some(literal),
        _ => None,
    };
    candidates.into_iter().filter_map(literal).collect()
}

/// How a constant of this type is another one: what follows its name.
fn change_of(r#type: &syn::Type) -> Option<&'static str> {
    const INTEGERS: [&str; 12] =
        ["u8", "u16", "u32", "u64", "u128", "usize", "i8", "i16", "i32", "i64", "i128", "isize"];
    let syn::Type::Path(path) = r#type else { return None };
    let last = path.path.segments.last()?.ident.to_string();
    match last.as_str() {
        "Duration" => Some(" * 2 + core::time::Duration::from_millis(1)"),
        name => INTEGERS.contains(&name).then_some(" * 2 + 1"),
    }
}

/// The constants of a crate, by name and file: their place, and what follows the name of the changed one.
#[derive(Default)]
pub struct Known(BTreeMap<String, BTreeMap<PathBuf, (usize, usize)>>);

impl Known {
    /// Where the constant is declared that a path of this file names.
    pub fn declared(&self, path: &syn::Path, file: &Path) -> Option<(&Path, usize, usize)> {
        let files = self.0.get(&path.segments.last()?.ident.to_string())?;
        let (file, place) = match files.get_key_value(file) {
            Some(found) => found,
            None if files.len() == 1 => files.first_key_value()?,
            None => return None,
        };
        Some((file, place.0, place.1))
    }
}

/// Finds the mutants of a file.
pub struct Finder<'s> {
    source: &'s str,
    file: &'s Path,
    within: Vec<String>,
    pub found: Vec<Value>,
}

impl<'s> Finder<'s> {
    pub const fn new(source: &'s str, file: &'s Path) -> Self {
        Self { source, file, within: Vec::new(), found: Vec::new() }
    }

    fn text(&self, span: proc_macro2::Span) -> String {
        let text = self.source.get(span.byte_range()).unwrap_or_default();
        let words: Vec<_> =
            text.lines().filter(|line| !line.trim_start().starts_with("//")).flat_map(str::split_whitespace).collect();
        let text = words.join(" ");
        match text.char_indices().nth(SHOWN) {
            Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
            None => text,
        }
    }

    fn add(&mut self, genre: &str, span: proc_macro2::Span, what: &str, replacement: &str) {
        let (start, end) = (span.start(), span.end());
        let (line, column) = (start.line, start.column.saturating_add(1));
        let function = self.within.last().map(|it| format!(" in {it}")).unwrap_or_default();
        self.found.push(json!({
            "file": self.file,
            "genre": genre,
            "name": format!("{}:{line}:{column}: {what}{function}", self.file.display()),
            "replacement": replacement,
            "span": {"start": {"line": line, "column": column}, "end": {"line": end.line, "column": end.column.saturating_add(1)}},
        }));
    }

    fn function(&mut self, signature: &syn::Signature, block: &syn::Block) {
        let (of, name) = (self.within.last().cloned(), &signature.ident);
        self.within.push(of.map_or_else(|| name.to_string(), |of| format!("{of}::{name}")));
        // A function without its only statement is a mutant of `cargo mutants`.
        match &*block.stmts {
            [only] if is_droppable(only) => visit::visit_stmt(self, only),
            _ => self.visit_block(block),
        }
        self.within.pop();
    }

    fn call(&mut self, call: &Expr, arguments: &Arguments) {
        if call.span().byte_range().len() > CALL {
            return;
        }
        for at in alike(arguments) {
            if let (Some(first), Some(second)) = (arguments.get(at), arguments.get(at.saturating_add(1))) {
                let what = format!("swap `{}` and `{}`", self.text(first.span()), self.text(second.span()));
                self.add("Swap", first.span(), &what, "");
            }
        }
    }
}

impl<'ast> Visit<'ast> for Finder<'_> {
    fn visit_item(&mut self, item: &'ast syn::Item) {
        if !is_left_out(item_attributes(item)) {
            visit::visit_item(self, item);
        }
    }

    fn visit_item_const(&mut self, item: &'ast syn::ItemConst) {
        if change_of(&item.ty).is_some() {
            self.add(
                "Constant",
                item.ident.span(),
                &format!("change {}", item.ident),
                change_of(&item.ty).unwrap_or_default(),
            );
        }
    }

    fn visit_impl_item_const(&mut self, item: &'ast syn::ImplItemConst) {
        if let Some(change) = change_of(&item.ty) {
            self.add("Constant", item.ident.span(), &format!("change {}", item.ident), change);
        }
    }

    fn visit_trait_item_const(&mut self, _: &'ast syn::TraitItemConst) {}

    fn visit_item_static(&mut self, _: &'ast syn::ItemStatic) {}

    fn visit_type(&mut self, _: &'ast syn::Type) {}

    fn visit_generic_argument(&mut self, _: &'ast syn::GenericArgument) {}

    fn visit_expr_repeat(&mut self, repeat: &'ast syn::ExprRepeat) {
        self.visit_expr(&repeat.expr);
    }

    fn visit_item_impl(&mut self, item: &'ast syn::ItemImpl) {
        let of = self.text(item.self_ty.span());
        match &item.trait_ {
            // What `Debug` prints is no contract.
            Some((_, r#trait, _)) if r#trait.segments.last().is_some_and(|it| it.ident == "Debug") => return,
            Some((_, r#trait, _)) => {
                let name = format!("<impl {} for {of}>", self.text(r#trait.span()));
                self.within.push(name);
            }
            None => self.within.push(of),
        }
        visit::visit_item_impl(self, item);
        self.within.pop();
    }

    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        self.function(&item.sig, &item.block);
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        if !is_left_out(&item.attrs) {
            self.function(&item.sig, &item.block);
        }
    }

    fn visit_trait_item_fn(&mut self, item: &'ast syn::TraitItemFn) {
        if let Some(block) = &item.default {
            self.function(&item.sig, block);
        }
    }

    fn visit_stmt(&mut self, statement: &'ast Stmt) {
        if is_left_out(statement_attributes(statement)) {
            return;
        }
        if is_droppable(statement) {
            let what = format!("drop `{}`", self.text(statement.span()));
            self.add("Statement", statement.span(), &what, "");
        }
        visit::visit_stmt(self, statement);
    }

    fn visit_arm(&mut self, arm: &'ast syn::Arm) {
        if !is_left_out(&arm.attrs) {
            visit::visit_arm(self, arm);
        }
    }

    fn visit_field_value(&mut self, value: &'ast syn::FieldValue) {
        if !is_left_out(&value.attrs) {
            visit::visit_field_value(self, value);
        }
    }

    fn visit_expr(&mut self, expression: &'ast Expr) {
        for literal in numbers(expression) {
            if let Some(other) = changed(literal) {
                let what = format!("change {literal} to {other} in `{}`", self.text(expression.span()));
                self.add("Number", literal.span(), &what, &other);
            }
        }
        match expression {
            Expr::Call(call) => self.call(expression, &call.args),
            Expr::MethodCall(call) => {
                if bounded(call).is_some() {
                    let what = format!("drop the bound of `{}`", self.text(expression.span()));
                    self.add("Bound", call.method.span(), &what, "");
                }
                self.call(expression, &call.args);
            }
            _ => {}
        }
        visit::visit_expr(self, expression);
    }
}

/// The constants that are declared in these files.
pub fn constants(files: &[PathBuf], folder: &Path) -> Result<Known, Box<dyn Error>> {
    let mut known = Known::default();
    for path in files {
        let (source, file) = (fs::read_to_string(path)?, path.strip_prefix(folder)?);
        let mut finder = Finder::new(&source, file);
        finder.visit_file(&syn::parse_file(&source)?);
        let mut twice = BTreeSet::new();
        for constant in finder.found.iter().filter(|it| it["genre"] == "Constant") {
            let name = constant["name"].as_str().and_then(|it| it.split_once(": change ")).unwrap_or_default().1;
            let name = name.split(' ').next().unwrap_or_default().to_owned();
            let number =
                |it: &str| constant["span"]["start"][it].as_u64().and_then(|it| it.try_into().ok()).unwrap_or_default();
            let place = (number("line"), number("column"));
            if known.0.entry(name.clone()).or_default().insert(file.to_owned(), place).is_some() {
                twice.insert(name);
            }
        }
        // Two of one name in a file are not told apart.
        for name in twice {
            known.0.get_mut(&name).map(|files| files.remove(file));
        }
    }
    Ok(known)
}
