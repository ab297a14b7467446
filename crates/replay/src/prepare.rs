//! Steps that build the tree a trace requires.
//!
//! They work like those of the trace, so many are in flight, and parents come before their
//! contents. Existing objects of the right size are used as they are.

use nfs_client::proto::nfs3::StableHow;

use crate::action::{Action, Creation, DIRECTORY, SYMLINK};
use crate::order::{AccessKind, DependencyBuilder, Resource, Span};
use crate::plan::{InitialObject, ReplayPlan};
use crate::step::{Batch, Step};
use crate::tree::DirectoryEntry;

/// Number of connections that build the tree.
pub(crate) const CONNECTIONS: u32 = 4;
/// Number of calls in flight on each of them.
pub(crate) const DEPTH: u32 = 16;

/// Content of the files of a tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Fill {
    /// They have the right size but no data.
    #[default]
    Sparse,
    /// They are filled with data.
    Data,
}

/// Creates the steps. The top of the tree has the number after the plan's last object. Adds names
/// for objects at the top.
pub(crate) fn make_batch(plan: &mut ReplayPlan, fill: Fill, wsize: u32) -> Batch {
    let top = plan.objects;
    let mut maker = StepMaker { order: DependencyBuilder::default(), steps: Vec::new(), client: 0 };
    for initial in plan.initial.clone() {
        let place = if let Some(place) = initial.place {
            place
        } else {
            let sort = if initial.file_type == DIRECTORY { 'd' } else { 'f' };
            plan.names.push(format!("{sort}{}", initial.object));
            DirectoryEntry { dir: top, name: plan.names.len() as u32 - 1 }
        };
        maker.client = (maker.client + 1) % CONNECTIONS;
        maker.make(&initial, place, fill, wsize);
    }
    let mut is_made = vec![false; plan.objects as usize];
    for initial in &plan.initial {
        is_made[initial.object as usize] = true;
    }
    for link in &plan.links {
        if is_made[link.object as usize] && is_made[link.place.dir as usize] {
            maker.push(
                Step {
                    file: link.object,
                    other: link.place.dir,
                    name: link.place.name,
                    ..Step::new(Action::Link)
                },
                &[
                    (Resource::File(link.object), AccessKind::Read),
                    (Resource::File(link.place.dir), AccessKind::Read),
                ],
            );
        }
    }
    Batch::new(maker.steps, maker.order, CONNECTIONS as usize)
}

struct StepMaker {
    order: DependencyBuilder,
    steps: Vec<Step>,
    client: u32,
}

impl StepMaker {
    fn make(&mut self, initial: &InitialObject, place: DirectoryEntry, fill: Fill, wsize: u32) {
        let InitialObject { object, size, .. } = *initial;
        let action = match initial.file_type {
            DIRECTORY => Action::Mkdir,
            SYMLINK => Action::Symlink { target_bytes: size.clamp(1, 1024) as u32 },
            _ => Action::Create { how: Creation::Unchecked, size: None },
        };
        let of_object = Resource::File(object);
        self.push(
            Step { file: place.dir, name: place.name, result: object, ..Step::new(action) },
            &[(Resource::File(place.dir), AccessKind::Read), (of_object, AccessKind::Exclusive)],
        );
        if !matches!(action, Action::Create { .. }) || size == 0 {
            return;
        }
        if fill == Fill::Sparse {
            let step = Step { file: object, ..Step::new(Action::SetSize(size)) };
            return self.push(step, &[(of_object, AccessKind::Exclusive)]);
        }
        let mut offset = 0;
        while offset < size {
            let count = (size - offset).min(u64::from(wsize)) as u32;
            let write = Action::Write { offset, count, stable: StableHow::Unstable };
            self.push(
                Step { file: object, ..Step::new(write) },
                &[(of_object, AccessKind::Change)],
            );
            offset += u64::from(count);
        }
        let commit = Action::Commit { offset: 0, count: 0 };
        self.push(Step { file: object, ..Step::new(commit) }, &[(of_object, AccessKind::Read)]);
    }

    fn push(&mut self, step: Step, needs: &[(Resource, AccessKind)]) {
        let number = self.steps.len() as u32;
        // Each step comes after the previous one, so that those of the same file stay in order.
        let span = Span { start_ns: u64::from(number), end_ns: u64::from(number) };
        for (thing, class) in needs {
            self.order.access(number, span, *thing, *class);
        }
        // After a CREATE, the size shows whether the object already exists as it should.
        self.steps.push(Step { client: self.client, depth: DEPTH, ..step });
    }
}
