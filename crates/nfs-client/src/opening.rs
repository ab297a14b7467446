//! Opening connections of a mount for load, and files on them.
//!
//! The blocking part of [`Connection`]. A v4 connection joins the mount's client, or a client of
//! its own if it has its own identity. **Source:** RFC 8881 section 2.10, RFC 7530 section 9.1.

use std::sync::Arc;

use nfs_proto::client::{File, OpenAccess};

use crate::connection::{
    CALLS_MAX, Client4, Connection, ConnectionOptions, Control, RENEWAL_SLOTS, SessionSize,
};
use crate::error::{CallFailure, MountError};
use crate::mount::Mount;
use crate::options::MountOptions;
use crate::service::{NFS, explain};

impl Connection {
    /// Opens a connection to the server of a mount and allocates all buffers it will use.
    ///
    /// # Errors
    /// [`MountError`], as for mounting.
    pub fn open(mount: &Mount, options: &ConnectionOptions) -> Result<Self, MountError> {
        let Some(client) = mount.client() else {
            return open_path(mount, options);
        };
        join_and_open(client, mount.options(), options, |options| open_path(mount, options))
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

/// Connects to the requested address of a mount, or to the next one that answers.
fn open_path(mount: &Mount, options: &ConnectionOptions) -> Result<Connection, MountError> {
    let paths = mount.paths();
    let mut first_failure = None;
    for step in 0..paths.len() {
        let path = (options.path + step) % paths.len();
        match Connection::connect_at(paths, path, mount.version(), options) {
            Ok(mut connection) => {
                if step > 0 {
                    connection.note_unreachable(options.path);
                }
                return Ok(connection);
            }
            Err(error @ MountError::Interrupted { .. }) => return Err(error),
            Err(error) => first_failure = first_failure.or(Some(error)),
        }
    }
    Err(first_failure.expect("a mount has at least one address"))
}

/// Opens a connection with `open` and makes it part of a v4 client.
pub(crate) fn join_and_open(
    client: &Arc<Client4>,
    of_mount: &MountOptions,
    options: &ConnectionOptions,
    open: impl FnOnce(&ConnectionOptions) -> Result<Connection, MountError>,
) -> Result<Connection, MountError> {
    // The lease is renewed in its own slot, so that it does not delay the caller's calls.
    let slots = options.slots.min(CALLS_MAX) + RENEWAL_SLOTS;
    let with_renewal = ConnectionOptions { slots, ..options.clone() };
    let mut control = Control::new(open(&with_renewal)?);
    let client = join_connection(&mut control, client, options)
        .map_err(|failure| explain(NFS, of_mount, failure))?;
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
