//! OPEN, OPEN_CONFIRM, OPEN_DOWNGRADE and CLOSE.
//!
//! The file is found or created first, then checked against the share reservations of other opens,
//! and only then truncated to the requested size, so that a denied OPEN destroys no data.
//!
//! **Source:** RFC 7530 sections 16.2 and 16.16 to 16.19, RFC 8881 section 18.16.

use std::sync::Arc;

use nfs_proto::Status;
use nfs_proto::nfs4::{
    Bitmap, ChangeInfo, Claim, ClientId, Fattr, OpCode, OpOk, OpenHow, StateOwner, Stateid,
    open_result, share,
};

use super::attributes::{set_at_creation, to_set};
use super::delegations::DelegationRequest;
use super::names::{change_info, check_name};
use super::numbered_calls::NumberedCall;
use super::state::{self, Client, OwnerKind, OwnerTurn, Share, State, Tables};
use super::{Outcome, Run};
use crate::fs::{self, Attributes, CreateMode, FileKind, FsError, InodeId, SetAttributes};
use crate::service::Service;

/// Share bits that v4.1 adds for requesting delegations. **Source:** RFC 8881 section 18.16.1.
const WANT_BITS: u32 = share::WANT_MASK | 0x3_0000;

/// OPEN without its owner.
#[derive(Clone, Copy, Debug)]
struct OpenRequest<'a> {
    owner: &'a [u8],
    share: Share,
    want: u32,
    how: OpenHow<'a>,
    claim: Claim<'a>,
}

/// The share bits of OPEN and OPEN_DOWNGRADE as they were sent.
#[derive(Clone, Copy, Debug)]
pub(super) struct ShareBits {
    pub(super) access: u32,
    pub(super) deny: u32,
}

/// The open that an operation refers to, and the sequence number of the call for its owner.
#[derive(Clone, Copy, Debug)]
struct NumberedOpen {
    stateid: Stateid,
    sequence: u32,
}

/// The file to open.
#[derive(Clone, Copy, Debug)]
struct Target {
    id: InodeId,
    change: ChangeInfo,
    set: Bitmap,
    /// The size to truncate an existing file to.
    resize: Option<u64>,
}

impl Service {
    pub(super) fn op_open(
        &mut self,
        owner: &StateOwner<'_>,
        sequence: u32,
        shares: ShareBits,
        how: OpenHow<'_>,
        claim: Claim<'_>,
        run: &mut Run<'_>,
    ) -> Outcome {
        let (share, want) = share_of(run.minor, shares)?;
        let request = OpenRequest { owner: owner.owner, share, want, how, claim };
        self.open_in_turn(owner, sequence, &request, run)
    }

    pub(super) fn op_open_confirm(
        &mut self,
        stateid: Stateid,
        sequence: u32,
        run: &mut Run<'_>,
    ) -> Outcome {
        let named = NumberedOpen { stateid, sequence };
        self.change_open(named, OpCode::OpenConfirm, run, |_, state| {
            let stateid = Tables::confirm_open(state)?;
            Ok((stateid, OpOk::OpenConfirm { stateid }))
        })
    }

    pub(super) fn op_open_downgrade(
        &mut self,
        stateid: Stateid,
        sequence: u32,
        shares: ShareBits,
        run: &mut Run<'_>,
    ) -> Outcome {
        let (share, _) = share_of(run.minor, shares)?;
        let named = NumberedOpen { stateid, sequence };
        self.change_open(named, OpCode::OpenDowngrade, run, |service, state| {
            let stateid = service.tables().downgrade_open(state, share)?;
            Ok((stateid, OpOk::OpenDowngrade { stateid }))
        })
    }

    pub(super) fn op_close(
        &mut self,
        stateid: Stateid,
        sequence: u32,
        run: &mut Run<'_>,
    ) -> Outcome {
        let named = NumberedOpen { stateid, sequence };
        self.change_open(named, OpCode::Close, run, |service, state| {
            let stateid = service.tables().close_open(state)?;
            Ok((stateid, OpOk::Close { stateid }))
        })
    }

    /// Checks that a state belongs to the current file and has this generation.
    fn check_state(
        &self,
        state: &Arc<State>,
        stateid: Stateid,
        run: &Run<'_>,
    ) -> Result<(), Status> {
        let requester = run.requester();
        let file = run.current()?;
        let found = self.tables().find_on(&stateid, requester, file, run.now_ns)?;
        if Arc::ptr_eq(&found, state) { Ok(()) } else { Err(Status::BadStateid) }
    }

    /// Executes an operation that changes an open and gives it a new stateid.
    fn change_open(
        &mut self,
        named: NumberedOpen,
        code: OpCode,
        run: &mut Run<'_>,
        change: impl FnOnce(&Self, &Arc<State>) -> Result<(Stateid, OpOk<'static>), Status>,
    ) -> Outcome {
        let NumberedOpen { stateid, sequence } = named;
        run.current()?;
        let stateid = run.resolve_stateid(stateid)?;
        let state = self.tables().find_state(&stateid, run.requester(), run.now_ns)?;
        let carry_out = |service: &mut Self, run: &mut Run<'_>| {
            service.check_state(&state, stateid, run)?;
            let (next, ok) = change(service, &state)?;
            run.stateid = Some(next);
            run.answer.write_ok(&ok);
            Ok(())
        };
        self.carry_out_in_turn(code, &state, sequence, run, carry_out)
    }

    fn open_in_turn(
        &mut self,
        owner: &StateOwner<'_>,
        sequence: u32,
        request: &OpenRequest<'_>,
        run: &mut Run<'_>,
    ) -> Outcome {
        if let Some(session) = run.session {
            let client = Arc::clone(&session.client);
            return self.open_file(&client, request, run);
        }
        let ClientId(id) = owner.client;
        let client = self.tables().client(id, run.now_ns)?;
        if client.has_sessions() {
            return Err(Status::StaleClientId.into());
        }
        match self.tables().begin_open(&client, owner.owner, sequence, run.now_ns)? {
            OwnerTurn::Replay(last) => Self::write_replay(&last, OpCode::Open, run),
            OwnerTurn::New => {
                let call = NumberedCall {
                    code: OpCode::Open,
                    client: &client,
                    kind: OwnerKind::Open,
                    owner: owner.owner,
                    sequence,
                };
                self.carry_out_numbered(call, run, |service, run| {
                    service.open_file(&client, request, run)
                })
            }
        }
    }

    fn open_file(
        &mut self,
        client: &Arc<Client>,
        request: &OpenRequest<'_>,
        run: &mut Run<'_>,
    ) -> Outcome {
        // From v4.1 on a client must send RECLAIM_COMPLETE before its first new OPEN, so that the
        // server knows when to end the grace period (RFC 8881 section 18.51.3).
        let has_reclaimed = run.minor == 0 || Tables::has_reclaimed(client);
        let must_wait = !has_reclaimed || self.tables().is_in_grace(run.now_ns);
        let reclaims = matches!(request.claim, Claim::Previous(_));
        match request.claim {
            Claim::Name(_) | Claim::Current if must_wait => return Err(Status::Grace.into()),
            Claim::Previous(_) => {
                self.tables().may_reclaim(client, run.now_ns)?;
            }
            _ => {}
        }
        let target = self.find_target(request, run)?;
        self.tables().expire_layouts(target.id, run.now_ns);
        if target.resize.is_some() {
            self.recall_for(target.id, run)?;
            self.recall_layouts_for(target.id, run)?;
        }
        // The pin keeps the file if its last name is removed while it is open.
        let pin = self.shared.fs.pin(target.id)?;
        let opened =
            self.tables().open_file(client, request.owner, pin, request.share, run.now_ns)?;
        if let Some(size) = target.resize {
            let set = SetAttributes { size: Some(size), ..SetAttributes::default() };
            self.resize_data(target.id, &set, &run.context)?;
            self.shared.fs.set_attributes(target.id, &set, None, &run.context)?;
        }
        run.set_current(target.id);
        run.stateid = Some(opened.stateid);
        if reclaims {
            Tables::confirm_reclaimed(client, request.owner);
        }
        let confirm = if opened.confirm && !reclaims { open_result::CONFIRM } else { 0 };
        let since_v4_1 = if run.minor > 0 { open_result::PRESERVE_UNLINKED } else { 0 };
        let OpenRequest { share, want, claim, .. } = *request;
        let delegation = self.delegate(target.id, DelegationRequest { share, want, claim }, run);
        run.succeed(&OpOk::Open {
            stateid: opened.stateid,
            change: target.change,
            flags: open_result::LOCKTYPE_POSIX | confirm | since_v4_1,
            set: target.set,
            delegation,
        })
    }

    /// Finds or creates the file.
    fn find_target(&self, request: &OpenRequest<'_>, run: &Run<'_>) -> Result<Target, Status> {
        let current = run.current()?;
        match request.claim {
            Claim::Name(name) => {
                check_directory(self, current)?;
                check_name(name)?;
                self.target_by_name(current, name, request, run)
            }
            Claim::Current | Claim::DelegateCurrentFile(_) if run.minor == 0 => Err(Status::Inval),
            Claim::Current | Claim::Previous(_) => {
                if request.how != OpenHow::NoCreate {
                    return Err(Status::Inval);
                }
                let found = self.shared.fs.attributes(current)?;
                check_opened(&found, run.minor)?;
                if request.claim == Claim::Current {
                    check_open_right(&found, request.share, run)?;
                } else {
                    // The owner may have opened it before a chmod (Linux `do_open_fhandle`).
                    let need = rights_for(request.share);
                    run.context.caller.check_data(found.protection(), need)?;
                }
                let change = ChangeInfo::default();
                Ok(Target { id: current, change, set: Bitmap::EMPTY, resize: None })
            }
            Claim::DelegateCurrent(stateid, name) => {
                check_directory(self, current)?;
                check_name(name)?;
                let found = self.shared.fs.lookup(current, name, &run.context.caller)?;
                self.delegated_target(&stateid, found.id, request, run)
            }
            Claim::DelegateCurrentFile(stateid) => {
                self.delegated_target(&stateid, current, request, run)
            }
            Claim::DelegatePrevious(_) | Claim::DelegatePreviousFile => Err(Status::NotSupp),
        }
    }

    /// Returns the file that a client has a delegation of. When returning it, a client uses this to
    /// open at the server what it had opened locally, after checking access itself.
    fn delegated_target(
        &self,
        stateid: &Stateid,
        file: InodeId,
        request: &OpenRequest<'_>,
        run: &Run<'_>,
    ) -> Result<Target, Status> {
        if request.how != OpenHow::NoCreate {
            return Err(Status::Inval);
        }
        let stateid = run.resolve_stateid(*stateid)?;
        self.tables().find_delegation(&stateid, run.requester(), file, run.now_ns)?;
        let found = self.shared.fs.attributes(file)?;
        if request.share.access & state::WRITE != 0 || request.share.deny != 0 {
            check_open_right(&found, request.share, run)?;
        }
        let now = found.ctime.0;
        let change = ChangeInfo { atomic: true, before: now, after: now };
        Ok(Target { id: file, change, set: Bitmap::EMPTY, resize: None })
    }

    fn target_by_name(
        &self,
        directory: InodeId,
        name: &[u8],
        request: &OpenRequest<'_>,
        run: &Run<'_>,
    ) -> Result<Target, Status> {
        let how = &request.how;
        let (mode, attributes) = match how {
            OpenHow::NoCreate => {
                return self.existing_target(directory, name, request.share, run);
            }
            // Both create the file only if the name is free. An unchecked OPEN then uses the
            // existing file and applies only a size of 0 (RFC 7530 section 16.16.5).
            OpenHow::Unchecked(attributes) | OpenHow::Guarded(attributes) => {
                (CreateMode::Guarded, *attributes)
            }
            OpenHow::Exclusive(verifier) => (CreateMode::Exclusive(verifier.0), Fattr::default()),
            OpenHow::ExclusiveWith(..) if run.minor == 0 => return Err(Status::Inval),
            OpenHow::ExclusiveWith(verifier, attributes) => {
                (CreateMode::Exclusive(verifier.0), *attributes)
            }
        };
        let (set, mask) = to_set(run.minor, &attributes)?;
        match self.shared.fs.create(directory, name, mode, &set, &run.context) {
            Ok(created) => {
                let change = change_info(&created.directory);
                let set = set_at_creation(mask, &run.context.caller);
                Ok(Target { id: created.id, change, set, resize: None })
            }
            Err(FsError::Exists) if matches!(how, OpenHow::Unchecked(_)) => {
                let target = self.existing_target(directory, name, request.share, run)?;
                if set.size != Some(0) {
                    return Ok(target);
                }
                let set = Bitmap::from_numbers(&[nfs_proto::nfs4::attribute::SIZE]);
                Ok(Target { set, resize: Some(0), ..target })
            }
            Err(error) => Err(error.into()),
        }
    }

    fn existing_target(
        &self,
        directory: InodeId,
        name: &[u8],
        share: Share,
        run: &Run<'_>,
    ) -> Result<Target, Status> {
        let found = self.shared.fs.lookup(directory, name, &run.context.caller)?;
        check_opened(&found.attributes, run.minor)?;
        check_open_right(&found.attributes, share, run)?;
        let now = found.directory.ctime.0;
        let change = ChangeInfo { atomic: true, before: now, after: now };
        Ok(Target { id: found.id, change, set: Bitmap::EMPTY, resize: None })
    }
}

/// Only regular files can be opened. **Source:** RFC 7530 16.16.5, RFC 8881 18.16.3.
fn check_opened(found: &Attributes, minor: u32) -> Result<(), Status> {
    match found.kind {
        FileKind::Regular => Ok(()),
        FileKind::Directory => Err(Status::IsDir),
        _ if minor == 0 => Err(Status::Symlink),
        FileKind::Symlink => Err(Status::Symlink),
        _ => Err(Status::WrongType),
    }
}

/// Checks the mode of an existing file; the creator may open a new file whatever its mode is.
fn check_open_right(found: &Attributes, share: Share, run: &Run<'_>) -> Result<(), Status> {
    run.context.caller.check_open(found.protection(), rights_for(share))?;
    Ok(())
}

/// Returns the rights that a share needs. Denying read access to others requires the right to write
/// (Linux `do_open_permission`).
fn rights_for(share: Share) -> u32 {
    let mut need = 0;
    if share.access & state::READ != 0 {
        need |= fs::READ;
    }
    if share.access & state::WRITE != 0 || share.deny & state::READ != 0 {
        need |= fs::WRITE;
    }
    need
}

fn check_directory(service: &Service, id: InodeId) -> Result<(), Status> {
    match service.shared.fs.attributes(id)?.kind {
        FileKind::Directory => Ok(()),
        FileKind::Symlink => Err(Status::Symlink),
        _ => Err(Status::NotDir),
    }
}

/// Decodes the access and deny bits, and which delegation is wanted.
fn share_of(minor: u32, shares: ShareBits) -> Result<(Share, u32), Status> {
    let ShareBits { access, deny } = shares;
    let want = if minor > 0 { access & WANT_BITS } else { 0 };
    let access = access & !want;
    if !(1..=share::BOTH).contains(&access) || deny > share::BOTH {
        return Err(Status::Inval);
    }
    Ok((Share { access, deny }, want))
}
