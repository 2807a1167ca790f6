//! The tables, written once: `values!` and `product!` for states, inputs and columns, `state_table!` and
//! `decision_table!` for the rows.
//!
//! A row is one line: patterns at the left, what follows at the right. From it come the pure function, the function that
//! the engine calls, which records the row with the feature `rows`, and the table for tests and the guide. A missing
//! combination does not compile.
//!
//! ```text
//! values! { State { Idle, Due, Receiving } }
//! values! { Input { Changed, Timer, Received, Failed } }
//! values! { Effect { Arm, Request, Commit } }
//!
//! state_table! {
//!     /// What the guide says about the table.
//!     "refresh" step: State, Input, Effect;
//!     (Idle)           (Changed)                 => (Due) [Arm];
//!     (Idle)           (Timer|Received|Failed)   => ignore;
//!     (Due)            (Timer)                   => (Receiving) [Request];
//!     (Receiving)      (Received)                => (Idle) [Commit] ! ListChangedLoop;
//!     (Receiving)      (Failed)                  => stay [Arm];
//!     (Due)            (Changed|Received|Failed) => ignore;
//!     (Receiving)      (Changed|Timer)           => ignore;
//! }
//! ```
//!
//! - A cell is one or more values, `_` for any, or `=name`, which the right side may use as `(=name)`.
//! - Rows do not overlap, unless the later one begins with `else`: it is for what the earlier ones leave of its pattern.
//! - At the right: `(Next) [Effects]` or `stay [Effects]`, and `! Kind` if a quirk is recorded; `ignore` for an input that
//!   arrives and is dropped, `never` for one that cannot arrive in this state, or `misuse` for a command that returns an
//!   error. Effects are separated by blanks; one with data is written `Fail(Failure::Timeout)`.
//! - `never` does what `ignore` does. When the crate is fuzzed, and while `.ci/rows` records rows, it panics: so fuzz targets,
//!   tests and laws find a row that is marked so and can be reached.
//! - A state that is a product is declared by `product! { State { phase: Phase, called: bool } }`, and named in the table
//!   as `State { phase: Phase, called: bool }`. Its rows have a cell for each part, at the left and at the right; at the
//!   right, `(_)` keeps the part.
//! - `step` is the function that the engine calls; `step::row` is pure, and `step::table()` is for tests.
//!
//! ```text
//! decision_table! {
//!     /// What the guide says about the table.
//!     "gate" decide(purpose: Use, declared: Declaration, lenient: bool) -> Decision;
//!     (Discover) (Declared|Unknown) (_)    => Allow;
//!     (Discover) (Undeclared)       (=may) => {if may { Decision::Allow } else { Decision::Withhold }};
//! }
//! ```
//!
//! - At the right: a value of the decision, with data in parentheses, or an expression in braces.
//! - `decide` is the function that the engine calls; `decide::row` is pure, and `decide::table()` is for tests.

use super::QuirkKind;

/// What a state table returns for a state and an input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Row<S, E: 'static> {
    pub(crate) verdict: Verdict,
    /// The state that follows.
    pub(crate) next: S,
    /// What the engine does, in order.
    pub(crate) effects: &'static [E],
}

/// The verdict on an input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The input is valid.
    Advance,
    /// The input is ignored.
    Ignore,
    /// The input cannot arrive in this state. It is ignored.
    Never,
    /// The input is a tolerated deviation of the server, which is recorded.
    Quirk(QuirkKind),
    /// The embedder's command is not possible in this state, and changes nothing.
    Reject,
}

impl Verdict {
    /// Whether the input does nothing.
    #[cfg(test)]
    pub(super) const fn is_dropped(self) -> bool {
        matches!(self, Self::Ignore | Self::Never)
    }

    /// # Panics
    /// The table says that the input cannot arrive in this state.
    #[cfg(any(fuzzing, feature = "rows"))]
    pub(crate) fn check(self, table: &str, state: &dyn core::fmt::Debug, input: &dyn core::fmt::Debug) {
        assert!(self != Self::Never, "{table}: {state:?} × {input:?} occurred, and the table says `never`");
    }
}

impl<S, E: 'static> Row<S, E> {
    pub(super) const fn advance(next: S, effects: &'static [E]) -> Self {
        Self { verdict: Verdict::Advance, next, effects }
    }

    pub(super) const fn quirk(kind: QuirkKind, next: S, effects: &'static [E]) -> Self {
        Self { verdict: Verdict::Quirk(kind), next, effects }
    }

    pub(super) const fn ignore(state: S) -> Self {
        Self { verdict: Verdict::Ignore, next: state, effects: &[] }
    }

    pub(super) const fn never(state: S) -> Self {
        Self { verdict: Verdict::Never, next: state, effects: &[] }
    }

    pub(super) const fn reject(state: S) -> Self {
        Self { verdict: Verdict::Reject, next: state, effects: &[] }
    }
}

/// All values of a type that a table has as a state, an input or a column. The first state is where a machine starts.
#[cfg(any(test, feature = "rows"))]
pub(crate) trait Values: Copy + core::fmt::Debug {
    /// Whether values are combinations, of which some cannot be reached.
    #[cfg(test)]
    const IS_PRODUCT: bool = false;

    fn all() -> alloc::vec::Vec<Self>;

    fn at(index: usize) -> Option<Self> {
        Self::all().get(index).copied()
    }
}

#[cfg(any(test, feature = "rows"))]
impl Values for bool {
    fn all() -> alloc::vec::Vec<Self> {
        alloc::vec![false, true]
    }
}

#[cfg(any(test, feature = "rows"))]
impl Values for crate::protocol::Era {
    fn all() -> alloc::vec::Vec<Self> {
        alloc::vec![Self::Legacy, Self::Modern]
    }
}

/// Enums without data: the values of a state, an input, an effect or a column.
macro_rules! values {
    ($($(#[$meta:meta])* $name:ident { $($(#[$doc:meta])* $value:ident),* $(,)? })*) => {$(
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[cfg_attr(feature = "snapshot", derive(serde::Serialize, serde::Deserialize))]
        #[allow(clippy::enum_variant_names, reason = "a table's values have the names of the field")]
        #[cfg_attr(
            not(all(feature = "oauth", feature = "snapshot")),
            allow(dead_code, reason = "some values need a feature")
        )]
        pub(crate) enum $name { $($(#[$doc])* $value),* }

        #[cfg(any(test, feature = "rows"))]
        impl $name {
            pub(crate) const ALL: &'static [Self] = &[$(Self::$value),*];
        }

        #[cfg(any(test, feature = "rows"))]
        impl $crate::machine::table::Values for $name {
            fn all() -> alloc::vec::Vec<Self> {
                Self::ALL.to_vec()
            }
        }
    )*};
}

/// A state of several parts. It is printed as its parts, separated by `/`.
macro_rules! product {
    ($(#[$meta:meta])* $name:ident { $($(#[$doc:meta])* $part:ident: $Part:ident),+ $(,)? }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[cfg_attr(feature = "snapshot", derive(serde::Serialize, serde::Deserialize))]
        pub(crate) struct $name { $($(#[$doc])* pub(crate) $part: $Part),+ }

        impl core::fmt::Debug for $name {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                let mut separator = "";
                $(
                    write!(f, "{separator}{:?}", self.$part)?;
                    separator = "/";
                )+
                let _ = separator;
                Ok(())
            }
        }

        #[cfg(any(test, feature = "rows"))]
        impl $crate::machine::table::Values for $name {
            #[cfg(test)]
            const IS_PRODUCT: bool = true;

            fn all() -> alloc::vec::Vec<Self> {
                let mut all = alloc::vec::Vec::new();
                $crate::machine::table::each_combination!(all, $name; $($part: $Part),+);
                all
            }
        }
    };
}

/// Pushes a value of each combination of the parts.
#[cfg(any(test, feature = "rows"))]
macro_rules! each_combination {
    ($all:ident, $name:ident; $($part:ident: $Part:ident),+) => {
        $crate::machine::table::each_combination!(@ $all, $name, [$($part)+]; $($part: $Part),+)
    };
    (@ $all:ident, $name:ident, [$($part:ident)+];) => { $all.push($name { $($part),+ }) };
    (@ $all:ident, $name:ident, $parts:tt; $first:ident: $First:ident $(, $part:ident: $Part:ident)*) => {
        for $first in <$First as $crate::machine::table::Values>::all() {
            $crate::machine::table::each_combination!(@ $all, $name, $parts; $($part: $Part),*);
        }
    };
}

/// The pattern of one cell.
macro_rules! cell {
    ($Type:ident; _) => { _ };
    ($Type:ident; = $name:ident) => { $name };
    (bool; $value:tt) => { $value };
    ($Type:ident; $($value:ident)|+) => { $($Type::$value)|+ };
}

/// The value of one cell at the right.
macro_rules! value {
    ($Type:ident; $now:expr; _) => {
        $now
    };
    ($Type:ident; $now:expr; = $name:ident) => {
        $name
    };
    (bool; $now:expr; $value:tt) => {
        $value
    };
    ($Type:ident; $now:expr; $value:ident) => {
        $Type::$value
    };
}

/// The pattern of a row of a state table: a cell for each part of the state, and one for the input.
macro_rules! state_pattern {
    ([$S:ident] $I:ident; ($($s:tt)*) ($($i:tt)*)) => {
        ($crate::machine::table::cell!($S; $($s)*), $crate::machine::table::cell!($I; $($i)*))
    };
    ([$S:ident $a:ident: $A:ident, $b:ident: $B:ident] $I:ident; ($($p:tt)*) ($($q:tt)*) ($($i:tt)*)) => {
        ($S { $a: $crate::machine::table::cell!($A; $($p)*), $b: $crate::machine::table::cell!($B; $($q)*) },
         $crate::machine::table::cell!($I; $($i)*))
    };
    ([$S:ident $a:ident: $A:ident, $b:ident: $B:ident, $c:ident: $C:ident] $I:ident;
     ($($p:tt)*) ($($q:tt)*) ($($r:tt)*) ($($i:tt)*)) => {
        ($S { $a: $crate::machine::table::cell!($A; $($p)*), $b: $crate::machine::table::cell!($B; $($q)*),
              $c: $crate::machine::table::cell!($C; $($r)*) },
         $crate::machine::table::cell!($I; $($i)*))
    };
}

/// The state at the right of a row.
macro_rules! next_state {
    ([$S:ident] $now:ident; ($($s:tt)*)) => { $crate::machine::table::value!($S; $now; $($s)*) };
    ([$S:ident $a:ident: $A:ident, $b:ident: $B:ident] $now:ident; ($($p:tt)*) ($($q:tt)*)) => {
        $S { $a: $crate::machine::table::value!($A; $now.$a; $($p)*), $b: $crate::machine::table::value!($B; $now.$b; $($q)*) }
    };
    ([$S:ident $a:ident: $A:ident, $b:ident: $B:ident, $c:ident: $C:ident] $now:ident;
     ($($p:tt)*) ($($q:tt)*) ($($r:tt)*)) => {
        $S { $a: $crate::machine::table::value!($A; $now.$a; $($p)*), $b: $crate::machine::table::value!($B; $now.$b; $($q)*),
             $c: $crate::machine::table::value!($C; $now.$c; $($r)*) }
    };
}

/// Whether a row begins with `else`.
#[cfg(test)]
macro_rules! otherwise {
    ([]) => {
        false
    };
    ([else]) => {
        true
    };
}

/// What follows in a row of a state table.
macro_rules! outcome {
    ($shape:tt $E:ident $now:ident; [] [ignore] [] []) => { $crate::machine::Row::ignore($now) };
    ($shape:tt $E:ident $now:ident; [] [never] [] []) => { $crate::machine::Row::never($now) };
    ($shape:tt $E:ident $now:ident; [] [misuse] [] []) => { $crate::machine::Row::reject($now) };
    ($shape:tt $E:ident $now:ident; [] [stay] $effects:tt $quirk:tt) => {
        $crate::machine::table::outcome!(@ $E $now; $effects $quirk)
    };
    ($shape:tt $E:ident $now:ident; [$($next:tt)+] [] $effects:tt $quirk:tt) => {
        $crate::machine::table::outcome!(@ $E $crate::machine::table::next_state!($shape $now; $($next)+); $effects $quirk)
    };
    (@ $E:ident $next:expr; [$($effect:ident $(($($data:tt)*))?)*] []) => {
        $crate::machine::Row::advance($next, &[$($E::$effect $(($($data)*))?),*])
    };
    (@ $E:ident $next:expr; [$($effect:ident $(($($data:tt)*))?)*] [$kind:ident]) => {
        $crate::machine::Row::quirk($crate::machine::QuirkKind::$kind, $next, &[$($E::$effect $(($($data)*))?),*])
    };
}

/// A table of states and inputs. See the module.
macro_rules! state_table {
    ($(#[doc = $doc:literal])* $name:literal $step:ident: $S:ident $({ $($part:ident: $Part:ident),+ })?, $I:ident, $E:ident;
     $( $($otherwise:ident)? $(($($left:tt)*))+ => $(($($next:tt)*))* $($word:ident)? $([$($effects:tt)*])? $(! $kind:ident)?; )+) => {
        $crate::machine::table::state_table! { @ [$($doc)*] $name $step [$S $($($part: $Part),+)?] $S $I $E
            $( [$($otherwise)?] [$(($($left)*))+] { [$(($($next)*))*] [$($word)?] [$($($effects)*)?] [$($kind)?] } )+ }
    };
    (@ [$($doc:literal)*] $name:literal $step:ident $shape:tt $S:ident $I:ident $E:ident
     $( $otherwise:tt [$($left:tt)+] { $($right:tt)+ } )+) => {
        pub(crate) mod $step {
            #[allow(clippy::wildcard_imports, reason = "a table's values are those of its module")]
            use super::*;

            /// The row for a state and an input.
            pub(crate) const fn row(state: $S, input: $I) -> $crate::machine::Row<$S, $E> {
                match (state, input) {
                    $( $crate::machine::table::state_pattern!($shape $I; $($left)+) =>
                        $crate::machine::table::outcome!($shape $E state; $($right)+), )+
                }
            }

            #[cfg(test)]
            #[allow(unused_variables, reason = "a pattern may bind what the right side of its row takes")]
            pub(crate) fn table() -> $crate::machine::tests::StateTable<$S, $I, $E> {
                $crate::machine::tests::StateTable::new($name, concat!($($doc, "\n"),*), row, &[
                    $( ($crate::machine::table::otherwise!($otherwise), |state, input| {
                        matches!((state, input), $crate::machine::table::state_pattern!($shape $I; $($left)+))
                    }), )+
                ])
            }
        }

        /// The row for a state and an input, recorded with the feature `rows`.
        #[inline]
        pub(crate) fn $step(state: $S, input: $I) -> $crate::machine::Row<$S, $E> {
            #[cfg(feature = "rows")]
            if let Some(row) = $crate::machine::rows::step($name, $step::row, state, input) {
                return row;
            }
            let row = $step::row(state, input);
            #[cfg(fuzzing)]
            row.verdict.check($name, &state, &input);
            row
        }
    };
}

/// Whether a command is refused in a state. Its row is recorded only then: otherwise the command takes it later.
pub(crate) fn refuses<S: Copy, I: Copy, E>(
    row: fn(S, I) -> Row<S, E>,
    step: fn(S, I) -> Row<S, E>,
    state: S,
    command: I,
) -> bool {
    matches!(row(state, command).verdict, Verdict::Reject) && matches!(step(state, command).verdict, Verdict::Reject)
}

/// The pattern of a row of a decision table: a cell for each column.
macro_rules! decision_pattern {
    ([$a:ident: $A:ident]; ($($p:tt)*)) => { ($crate::machine::table::cell!($A; $($p)*),) };
    ([$($column:ident: $Column:ident),+]; $($cells:tt)+) => {
        $crate::machine::table::decision_pattern!(@ [] [$($Column)+] $($cells)+)
    };
    (@ [$(($Done:ident $($done:tt)*))*] []) => { ($($crate::machine::table::cell!($Done; $($done)*)),*) };
    (@ [$($done:tt)*] [$First:ident $($Rest:ident)*] ($($cell:tt)*) $($cells:tt)*) => {
        $crate::machine::table::decision_pattern!(@ [$($done)* ($First $($cell)*)] [$($Rest)*] $($cells)*)
    };
}

/// A table of decisions. See the module.
macro_rules! decision_table {
    ($(#[doc = $doc:literal])* $name:literal $decide:ident($($column:ident: $Column:ident),+ $(,)?) -> $Out:ident;
     $($rows:tt)+) => {
        $crate::machine::table::decision_table! { @ [$($doc)*] $name $decide [$($column: $Column),+] [$($column: $Column),+] $Out;
            $($rows)+ }
    };
    (@ [$($doc:literal)*] $name:literal $decide:ident $columns:tt [$($column:ident: $Column:ident),+] $Out:ident;
     $( $($otherwise:ident)? $(($($cell:tt)*))+ => $($out:ident $(($($data:tt)*))?)? $({ $expression:expr })?; )+) => {
        pub(crate) mod $decide {
            #[allow(clippy::wildcard_imports, reason = "a table's values are those of its module")]
            use super::*;

            /// The decision.
            #[allow(unused_parens, reason = "one column")]
            #[rustfmt::skip]
            pub(crate) const fn row($($column: $Column),+) -> $Out {
                match ($($column,)+) {
                    $( $crate::machine::table::decision_pattern!($columns; $(($($cell)*))+) =>
                        $crate::machine::table::decided!($Out; $($out $(($($data)*))?)? $({ $expression })?), )+
                }
            }

            /// The decision for a value of each column, by index.
            #[cfg(any(test, feature = "rows"))]
            pub(crate) fn at(index: &[usize]) -> Option<$Out> {
                let mut index = index.iter();
                $(let $column = <$Column as $crate::machine::table::Values>::at(*index.next()?)?;)+
                Some(row($($column),+))
            }

            /// The number of values of each column.
            #[cfg(feature = "rows")]
            pub(crate) fn sizes() -> alloc::vec::Vec<usize> {
                alloc::vec![$(<$Column as $crate::machine::table::Values>::all().len()),+]
            }

            /// For the values with these indexes: whether each row begins with `else`, and whether it is for them.
            #[cfg(test)]
            #[allow(unused_parens, unused_variables, reason = "one column, and what the right side of a row takes")]
            fn matching(index: &[usize]) -> alloc::vec::Vec<(bool, bool)> {
                let mut index = index.iter();
                $(let $column = <$Column as $crate::machine::table::Values>::all()[*index.next().unwrap()];)+
                let values = ($($column,)+);
                alloc::vec![$((
                    $crate::machine::table::otherwise!([$($otherwise)?]),
                    matches!(values, $crate::machine::table::decision_pattern!($columns; $(($($cell)*))+)),
                )),+]
            }

            #[cfg(test)]
            pub(crate) fn table() -> $crate::machine::tests::DecisionTable {
                use $crate::machine::tests::{DecisionTable, printed};
                use $crate::machine::table::Values;
                DecisionTable::new(
                    $name,
                    concat!($($doc, "\n"),*),
                    alloc::vec![$((stringify!($column), printed(&<$Column as Values>::all()))),+],
                    |index| at(index).map_or_else(alloc::string::String::new, |it| alloc::format!("{it:?}")),
                    matching,
                )
            }
        }

        /// The decision, recorded with the feature `rows`.
        #[inline]
        pub(crate) fn $decide($($column: $Column),+) -> $Out {
            let decided = $decide::row($($column),+);
            #[cfg(feature = "rows")]
            if let Some(other) = $crate::machine::rows::decide($name, &[$(&$column),+], &decided, &$decide::sizes(), $decide::at) {
                return other;
            }
            decided
        }
    };
}

/// A decision at the right of a row.
macro_rules! decided {
    ($Out:ident; { $expression:expr }) => { $expression };
    (bool; $value:ident) => { $value };
    ($Out:ident; $value:ident $(($($data:tt)*))?) => { $Out::$value $(($($data)*))? };
}

#[cfg(any(test, feature = "rows"))]
pub(crate) use each_combination;
#[cfg(test)]
pub(crate) use otherwise;
pub(crate) use {
    cell, decided, decision_pattern, decision_table, next_state, outcome, product, state_pattern, state_table, value,
    values,
};

#[cfg(test)]
mod tests {
    use super::*;

    values! {
        Phase { Idle, Due, Receiving }
        Input { Changed, Timer, Received, Failed }
        Effect { Arm, Request, Commit }
        Answer { Yes, No }
    }
    product! { State { phase: Phase, again: bool } }

    state_table! {
        /// An example.
        "example" step: State { phase: Phase, again: bool }, Input, Effect;
        (Idle)          (_)     (Changed)               => (Due)       (false) [Arm];
        (Idle)          (_)     (Timer|Received|Failed) => ignore;
        (Due)           (_)     (Timer)                 => (Receiving) (_)     [Request];
        (Due)           (_)     (Failed)                => misuse;
        (Due)           (_)     (Changed|Received)      => ignore;
        (Receiving)     (=was)  (Received)              => (Idle)      (=was)  [Commit Arm] ! ListChangedLoop;
        (Receiving)     (_)     (Failed)                => stay [Arm];
        (Receiving)     (_)     (Changed)               => (_)         (true);
        (Receiving)     (_)     (Timer)                 => never;
    }

    decision_table! {
        /// An example.
        "decision" decide(phase: Phase, again: bool) -> Answer;
        (Idle|Due)  (true)  => Yes;
        else (Idle|Due) (_) => No;
        (Receiving) (=more) => {if more { Answer::Yes } else { Answer::No }};
    }

    #[test]
    fn a_row_says_what_follows() {
        let state = |phase, again| State { phase, again };
        let receiving = state(Phase::Receiving, true);
        let quirk = Row::quirk(QuirkKind::ListChangedLoop, state(Phase::Idle, true), &[Effect::Commit, Effect::Arm]);
        assert_eq!(step::row(receiving, Input::Received), quirk);
        assert_eq!(step::row(receiving, Input::Failed), Row::advance(receiving, &[Effect::Arm]));
        assert_eq!(step::row(state(Phase::Due, true), Input::Failed).verdict, Verdict::Reject);
        assert_eq!(step::row(state(Phase::Idle, true), Input::Timer).verdict, Verdict::Ignore);
        assert_eq!(step(state(Phase::Receiving, false), Input::Changed).next, receiving);
        assert_eq!(step::row(receiving, Input::Timer).verdict, Verdict::Never);
        assert_eq!((decide(Phase::Due, false), decide::row(Phase::Receiving, true)), (Answer::No, Answer::Yes));
        step::table().check(&[]);
        assert_eq!(decide::table().lines(), [["any", "false", "No"], ["any", "true", "Yes"]]);
    }
}
