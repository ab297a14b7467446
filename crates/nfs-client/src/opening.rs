//! Opening connections of a mount for load, and files on them.
//!
//! The blocking part of [`Connection`]. A v4 connection joins the mount's client, or a client of
//! its own if it has its own identity. **Source:** RFC 8881 section 2.10, RFC 7530 section 9.1.

use std::sync::Arc;

use nfs_proto::client::{File, OpenAccess};

use crate::connection::{
    CALLS_MAX, Client4, Connection, ConnectionOptions, Control, RENEWAL_SLOTS, SessionSize, Target,
};
use crate::error::{CallFailure, MountError};
use crate::mount::Mount;
use crate::service::{NFS, explain};

impl Connection {
    /// Opens a connection to the server of a mount and allocates all buffers it will use.
    ///
    /// # Errors
    /// [`MountError`], as for mounting.
    pub fn open(mount: &Mount, options: &ConnectionOptions) -> Result<Self, MountError> {
        let Some(client) = mount.client() else {
            return Self::connect_to(mount.target(), mount.version(), options);
        };
        join_and_open(mount.target(), client, options)
    }

    /// Opens existing files, each a name in a directory, as opens of this connection: in v4.0 only
    /// this connection can close them. Blocks; no call may be in flight.
    ///
    /// # Errors
    /// [`CallFailure`]; the connection is then closed.
    pub fn with_opens<'a>(
        self,
        names: impl Iterator<Item = (&'a File, Vec<u8>)>,
        access: OpenAccess,
    ) -> Result<(Self, Vec<File>), CallFailure> {
        let mut control = Control::new(self);
        let opened = names
            .into_iter()
            .map(|(dir, name)| control.open_file(dir, &name, access))
            .collect::<Result<Vec<_>, _>>()?;
        Ok((control.into_connection(), opened))
    }
}

/// Opens a connection to a server and makes it part of a v4 client.
pub(crate) fn join_and_open(
    target: &Arc<Target>,
    client: &Arc<Client4>,
    options: &ConnectionOptions,
) -> Result<Connection, MountError> {
    // The lease is renewed in its own slot, so that it does not delay the caller's calls.
    let slots = options.slots.min(CALLS_MAX) + RENEWAL_SLOTS;
    let with_renewal = ConnectionOptions { slots, ..options.clone() };
    let connection = Connection::connect_to(target, target.options.version, &with_renewal)?;
    let mut control = Control::new(connection);
    let client = join_connection(&mut control, client, options)
        .map_err(|failure| explain(NFS, &target.options, failure))?;
    let mut connection = control.into_connection();
    connection.set_client(client, options.slots.min(CALLS_MAX));
    Ok(connection)
}

/// Makes a connection part of the mount's client, or of a new one if it has an identity.
fn join_connection(
    control: &mut Control,
    of_mount: &Arc<Client4>,
    options: &ConnectionOptions,
) -> Result<Arc<Client4>, CallFailure> {
    of_mount.destroy_unused(control)?;
    let client = match &options.identity {
        None => Arc::clone(of_mount),
        Some(identity) => {
            let size = SessionSize::for_one_connection(options.slots.min(CALLS_MAX));
            let counters = Arc::clone(of_mount.delegations().counters());
            let client = Client4::introduce(control, &identity.machine_name, size, counters)?;
            let client = Arc::new(client);
            of_mount.add_other(&client);
            client
        }
    };
    client.join(control)?;
    Ok(client)
}
