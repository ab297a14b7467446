//! v4.0 clients: SETCLIENTID, SETCLIENTID_CONFIRM and RENEW.
//!
//! The callback address is ignored: v4.0 clients are never called back.
//!
//! **Source:** RFC 7530 sections 16.29, 16.33 and 16.34.

use nfs_proto::Status;
use nfs_proto::nfs4::{ClientId, ClientOwner, NetAddress, OpOk, OpResult, Verifier};

use super::answer::Failure;
use super::state::Identity;
use super::{Outcome, Run};
use crate::limits::NFS4_OWNER_BYTES_MAX;
use crate::service::Service;

impl Service {
    pub(super) fn op_setclientid(
        &mut self,
        owner: &ClientOwner<'_>,
        callback_address: NetAddress<'_>,
        run: &mut Run<'_>,
    ) -> Outcome {
        if owner.id.len() > NFS4_OWNER_BYTES_MAX {
            return Err(Status::BadXdr.into());
        }
        let identity =
            Identity { owner: owner.id, verifier: owner.verifier.0, principal: run.principal() };
        match self.tables().set_client_id(identity, run.now_ns) {
            Ok((id, confirm)) => {
                run.succeed(&OpOk::Setclientid { client: ClientId(id), confirm: Verifier(confirm) })
            }
            Err(Status::ClidInUse) => {
                // The reply contains the address of the client that already has the id.
                run.answer.write_op_result(&OpResult::ClientInUse(callback_address));
                Err(Failure::Written(Status::ClidInUse))
            }
            Err(status) => Err(status.into()),
        }
    }

    pub(super) fn op_setclientid_confirm(
        &mut self,
        ClientId(id): ClientId,
        confirm: Verifier,
        run: &mut Run<'_>,
    ) -> Outcome {
        self.tables().confirm_client_id(id, confirm.0, run.principal(), run.now_ns)?;
        run.succeed(&OpOk::SetclientidConfirm)
    }

    pub(super) fn op_renew(&mut self, ClientId(id): ClientId, run: &mut Run<'_>) -> Outcome {
        let client = self.tables().client(id, run.now_ns)?;
        if client.has_sessions() {
            return Err(Status::StaleClientId.into());
        }
        client.renew(run.now_ns);
        run.succeed(&OpOk::Renew)
    }
}
