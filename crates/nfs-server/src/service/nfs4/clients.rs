//! Clients of v4.0: SETCLIENTID, SETCLIENTID_CONFIRM and RENEW.
//!
//! The address for callbacks is passed over: there is nothing to call back for.
//!
//! **Source:** RFC 7530 sections 16.29, 16.33 and 16.34.

use nfs_proto::Status;
use nfs_proto::nfs4::{ClientId, Op, OpOk, OpResult, Verifier};

use super::answer::{Answer, Failure};
use super::state::{Identity, Tables};
use super::{Outcome, Run};
use crate::limits::NFS4_OWNER_BYTES_MAX;
use crate::service::Service;

impl Service {
    /// Carries out an operation on a client of v4.0.
    pub(super) fn client(
        &mut self,
        op: &Op<'_>,
        run: &Run<'_>,
        answer: &mut Answer<'_>,
    ) -> Outcome {
        match *op {
            Op::Setclientid { owner, callback_address, .. } => {
                if owner.id.len() > NFS4_OWNER_BYTES_MAX {
                    return Err(Status::BadXdr.into());
                }
                let identity = Identity {
                    owner: owner.id,
                    verifier: owner.verifier.0,
                    principal: run.principal(),
                };
                match self.tables().set_client_id(identity, run.now_ns) {
                    Ok((id, confirm)) => {
                        let (client, confirm) = (ClientId(id), Verifier(confirm));
                        answer.ok(&OpOk::Setclientid { client, confirm });
                    }
                    Err(Status::ClidInUse) => {
                        // The other client's address is its own affair.
                        answer.result(&OpResult::ClientInUse(callback_address));
                        return Err(Failure::Told(Status::ClidInUse));
                    }
                    Err(status) => return Err(status.into()),
                }
            }
            Op::SetclientidConfirm { client: ClientId(id), confirm } => {
                let names = (id, confirm.0);
                self.tables().confirm_client_id(names, run.principal(), run.now_ns)?;
                answer.ok(&OpOk::SetclientidConfirm);
            }
            Op::Renew { client: ClientId(id) } => {
                let client = self.tables().client(id, run.now_ns)?;
                if client.has_sessions {
                    return Err(Status::StaleClientId.into());
                }
                Tables::renew(&client, run.now_ns);
                answer.ok(&OpOk::Renew);
            }
            _ => unreachable!("dispatch sends {:?} elsewhere", op.code()),
        }
        Ok(())
    }
}
