//! Bounds on what the validator has open at once while it compiles a schema, and on how often it compiles the same.
//!
//! It follows references, each once, and each adds to its stack. For keywords such as `unevaluatedProperties` it follows the
//! references on the same value again, and compiles the subschemas that stand there for members and elements again.

use alloc::vec::Vec;

use super::graph::{Applied, Node};
use crate::validation::{ValidationError, ValidationLimit};

/// Maximum number of subschemas that lead to each other in a row, each once.
const NESTING: usize = 96;

/// Maximum number of subschemas that are compiled again for a keyword such as `unevaluatedProperties`.
const AGAIN: u64 = 10_000;

/// Fails if a row of subschemas that lead to each other may be too long, or if too much is compiled again. The longest row
/// is at most the heaviest path through the strongly connected components, each with the number of its subschemas.
pub(super) fn check_nesting(nodes: &[Node<'_>]) -> Result<(), ValidationError> {
    let marked = marked(nodes);
    let marks = vec![Mark::default(); nodes.len()];
    let mut components = Components { nodes, marked, marks, open: Vec::new(), count: 0 };
    for at in 0..nodes.len() {
        if components.marks.get(at).is_some_and(|mark| mark.order.is_none()) {
            components.visit(at, 0)?;
        }
    }
    Ok(())
}

#[derive(Clone, Copy, Default)]
struct Mark {
    /// The order in which it was found.
    order: Option<usize>,
    /// The least order that it leads to among the open ones.
    low: usize,
    /// The longest row in other components that it leads to.
    after: usize,
    /// The longest row from its component on, once that is complete.
    row: Option<usize>,
    /// The number of subschemas that it leads to, each as often as there are ways to it, once its component is complete.
    unfolded: u64,
}

/// The subschemas that some keyword such as `unevaluatedProperties` has applied to its own value.
fn marked(nodes: &[Node<'_>]) -> Vec<bool> {
    let mut marked: Vec<_> = nodes.iter().map(|node| node.unevaluated() > 0).collect();
    let mut work: Vec<_> = nodes.iter().filter(|node| node.unevaluated() > 0).collect();
    while let Some(node) = work.pop() {
        for edge in node.edges.iter().filter(|edge| matches!(edge.applied, Applied::Same)) {
            if let (Some(mark), Some(node)) = (marked.get_mut(edge.to), nodes.get(edge.to))
                && !core::mem::replace(mark, true)
            {
                work.push(node);
            }
        }
    }
    marked
}

/// Whether the validator compiles the target again to find what was evaluated.
const fn is_compiled_again(applied: Applied<'_>) -> bool {
    match applied {
        Applied::Members | Applied::OtherMembers | Applied::Element(_) | Applied::Elements => true,
        Applied::Same | Applied::Member(_) | Applied::Names | Applied::Nothing => false,
    }
}

/// Tarjan's algorithm. Its recursion is as deep as a row of subschemas.
struct Components<'g, 'a> {
    nodes: &'g [Node<'a>],
    marked: Vec<bool>,
    marks: Vec<Mark>,
    open: Vec<usize>,
    count: usize,
}

impl Components<'_, '_> {
    fn visit(&mut self, at: usize, level: usize) -> Result<(), ValidationError> {
        let order = self.count;
        let (Some(node), Some(mark)) = (self.nodes.get(at), self.marks.get_mut(at)) else { return Ok(()) };
        *mark = Mark { order: Some(order), low: order, ..Mark::default() };
        bounded(level)?;
        self.count = self.count.saturating_add(1);
        self.open.push(at);
        for edge in node.edges.iter().filter(|edge| !matches!(edge.applied, Applied::Nothing)) {
            if self.marks.get(edge.to).is_some_and(|mark| mark.order.is_none()) {
                self.visit(edge.to, level.saturating_add(1))?;
            }
            let Some(Mark { low, row, .. }) = self.marks.get(edge.to).copied() else { continue };
            if let Some(mark) = self.marks.get_mut(at) {
                match row {
                    Some(row) => mark.after = mark.after.max(row),
                    None => mark.low = mark.low.min(low),
                }
            }
        }
        if self.marks.get(at).is_some_and(|mark| mark.low == order) {
            self.close(at)?;
        }
        Ok(())
    }

    /// Completes the component whose first subschema is `first`.
    fn close(&mut self, first: usize) -> Result<(), ValidationError> {
        let start = self.open.iter().rposition(|at| *at == first).unwrap_or_default();
        let component = self.open.split_off(start);
        let after = component.iter().filter_map(|at| self.marks.get(*at)).map(|mark| mark.after).max();
        let row = component.len().saturating_add(after.unwrap_or_default());
        bounded(row)?;
        let edges = component.iter().filter_map(|at| self.nodes.get(*at)).flat_map(|node| &node.edges);
        let targets = edges.filter_map(|edge| self.marks.get(edge.to)).filter(|mark| mark.row.is_some());
        let size = u64::try_from(component.len()).unwrap_or(u64::MAX);
        let unfolded = targets.fold(size, |sum, mark| sum.saturating_add(mark.unfolded));
        self.check_again(&component)?;
        for at in component {
            if let Some(mark) = self.marks.get_mut(at) {
                mark.row = Some(row);
                mark.unfolded = unfolded;
            }
        }
        Ok(())
    }

    /// Checks what is compiled again for the subschemas of a component. One that leads back to itself may be without end.
    fn check_again(&self, component: &[usize]) -> Result<(), ValidationError> {
        let marked = component.iter().filter(|at| self.marked.get(**at) == Some(&true));
        let edges = marked.filter_map(|at| self.nodes.get(*at)).flat_map(|node| &node.edges);
        for edge in edges.filter(|edge| is_compiled_again(edge.applied)) {
            let target = self.marks.get(edge.to);
            if target.is_none_or(|mark| mark.row.is_none() || mark.unfolded > AGAIN) {
                return Err(ValidationError::Limit(ValidationLimit::Subschemas));
            }
        }
        Ok(())
    }
}

const fn bounded(row: usize) -> Result<(), ValidationError> {
    if row > NESTING { Err(ValidationError::Limit(ValidationLimit::Nesting)) } else { Ok(()) }
}
