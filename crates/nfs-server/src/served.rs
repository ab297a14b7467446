//! Counts of operations that a server executed, summed over the NFS versions.
//!
//! They are compared with the clients' counts. A v4 operation counts under the kind it is specific
//! to: CREATE, which creates everything but files, under MKDIR, and OPEN under OPEN even if it
//! creates a file. The GETATTR that accompanies it is not counted.

use nfs_proto::client::OperationKind;
use nfs_proto::nfs4::OpCode;
use nfs_proto::{nfs2, nfs3};

use crate::counters::ServerCounters;

impl ServerCounters {
    /// Calls in all versions that executed this kind of operation, including failed ones.
    pub fn calls_of_kind(&self, kind: OperationKind) -> u64 {
        let (v2, v3, v4) = procedures_of(kind);
        v2.map_or(0, |procedure| self.nfs2_calls_of(procedure))
            + v3.map_or(0, |procedure| self.calls_of(procedure))
            + v4.map_or(0, |operation| self.nfs4_operations[operation.number() as usize])
    }
}

type Procedures = (Option<nfs2::Procedure>, Option<nfs3::Procedure>, Option<OpCode>);

const fn procedures_of(kind: OperationKind) -> Procedures {
    use OperationKind as Kind;
    use nfs2::Procedure as V2;
    use nfs3::Procedure as V3;
    match kind {
        Kind::Null => (Some(V2::Null), Some(V3::Null), None),
        Kind::Getattr => (Some(V2::Getattr), Some(V3::Getattr), None),
        Kind::Setattr => (Some(V2::Setattr), Some(V3::Setattr), Some(OpCode::Setattr)),
        Kind::Lookup => (Some(V2::Lookup), Some(V3::Lookup), Some(OpCode::Lookup)),
        Kind::Access => (None, Some(V3::Access), Some(OpCode::Access)),
        Kind::Readlink => (Some(V2::Readlink), Some(V3::Readlink), Some(OpCode::Readlink)),
        Kind::Read => (Some(V2::Read), Some(V3::Read), Some(OpCode::Read)),
        Kind::Write => (Some(V2::Write), Some(V3::Write), Some(OpCode::Write)),
        Kind::Create => (Some(V2::Create), Some(V3::Create), None),
        Kind::Mkdir => (Some(V2::Mkdir), Some(V3::Mkdir), Some(OpCode::Create)),
        Kind::Symlink => (Some(V2::Symlink), Some(V3::Symlink), None),
        Kind::Mknod => (None, Some(V3::Mknod), None),
        Kind::Remove => (Some(V2::Remove), Some(V3::Remove), Some(OpCode::Remove)),
        Kind::Rmdir => (Some(V2::Rmdir), Some(V3::Rmdir), None),
        Kind::Rename => (Some(V2::Rename), Some(V3::Rename), Some(OpCode::Rename)),
        Kind::Link => (Some(V2::Link), Some(V3::Link), Some(OpCode::Link)),
        Kind::Readdir => (Some(V2::Readdir), Some(V3::Readdir), Some(OpCode::Readdir)),
        Kind::ReaddirPlus => (None, Some(V3::Readdirplus), None),
        Kind::Fsstat => (Some(V2::Statfs), Some(V3::Fsstat), None),
        Kind::Fsinfo => (None, Some(V3::Fsinfo), None),
        Kind::Pathconf => (None, Some(V3::Pathconf), None),
        Kind::Commit => (None, Some(V3::Commit), Some(OpCode::Commit)),
        Kind::Open => (None, None, Some(OpCode::Open)),
        Kind::Close => (None, None, Some(OpCode::Close)),
        Kind::Allocate => (None, None, Some(OpCode::Allocate)),
        Kind::Deallocate => (None, None, Some(OpCode::Deallocate)),
        Kind::Seek => (None, None, Some(OpCode::Seek)),
        Kind::ReadPlus => (None, None, Some(OpCode::ReadPlus)),
        Kind::Copy => (None, None, Some(OpCode::Copy)),
        Kind::Getxattr => (None, None, Some(OpCode::Getxattr)),
        Kind::Setxattr => (None, None, Some(OpCode::Setxattr)),
        Kind::Listxattrs => (None, None, Some(OpCode::Listxattrs)),
        Kind::Removexattr => (None, None, Some(OpCode::Removexattr)),
    }
}
