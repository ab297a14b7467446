//! pNFS: layouts of open files, and connections to the data servers that have their data.
//!
//! [`Mount::get_layout`] asks the metadata server which [`DataServers`] have a file, connects to
//! those that are new, and returns a [`FileLayout`]: for each mirror the striping, and for each
//! stripe a data server and the file there. Both the files layout and flexible files lead to the
//! same structure; layouts of disks are refused. All of this blocks and is for setup and cleanup
//! only. **Source:** RFC 8881 chapters 12 and 13, RFC 8435.

mod data_servers;
mod devices;
mod parse;

use nfs_proto::client::File;
use nfs_proto::nfs4::{
    Attributes, Bitmap, DeviceError, DeviceId, FlexIoError, FlexIoStats, FlexLayoutReturn,
    LayoutIoMode, LayoutReturn, LayoutUpdate, List, Op, OpCode, OpOk, Stateid, Wire as _,
    attribute, layout_type,
};
use nfs_proto::striping::Striping;
use nfs_proto::xdr::Writer;
use nfs_proto::{CallError, DecodeError, Status};

use crate::error::CallFailure;
use crate::mount::Mount;

pub use data_servers::{DataServer, DataServers};
use devices::GrantedLayout;
pub use devices::KnownDevices;

/// Largest result of LAYOUTGET and GETDEVICEINFO that is requested, in bytes.
const RESULT_BYTES_MAX: u32 = 64 * 1024;
/// Part of a file that a layout must cover at least: a page, as Linux requests.
const MIN_LENGTH: u64 = 4096;

/// Which type of layout to request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum LayoutChoice {
    /// The first type that the server offers and this client knows.
    Any,
    /// Only the files layout.
    Files,
    /// Only flexible files.
    FlexFiles,
}

/// Where the data of an open file is.
#[derive(Debug, Clone)]
pub struct FileLayout {
    /// Stateid of the layout.
    pub stateid: Stateid,
    /// Type of the layout; see [`layout_type`].
    pub layout_type: u32,
    /// What it may be used for.
    pub iomode: LayoutIoMode,
    /// The mirrors, the preferred one first; all have the whole file.
    pub mirrors: Vec<Mirror>,
    /// Whether COMMIT is sent to the metadata server instead of the data servers.
    pub commits_through_mds: bool,
    /// Whether LAYOUTCOMMIT has to follow after writing.
    pub needs_layoutcommit: bool,
    /// Whether the layout may be used for reading.
    pub allows_reads: bool,
    /// Number of mirrors to write, counted from the first: all, or one if the server updates the
    /// others.
    pub written_mirrors: usize,
    /// How often the server wants LAYOUTSTATS, in seconds; 0 means no preference.
    pub stats_interval_s: u32,
}

/// A copy of a file's data.
#[derive(Debug, Clone)]
pub struct Mirror {
    /// How the file is divided into stripes.
    pub striping: Striping,
    /// The data server of each stripe.
    pub stripes: Vec<StripeFile>,
}

/// A stripe of a file.
#[derive(Debug, Clone, Copy)]
pub struct StripeFile {
    /// Index of the data server in [`DataServers`].
    pub server: u32,
    /// The file at the data server.
    pub file: File,
    /// Id of the device.
    pub device: DeviceId,
    /// The uid and gid to use there; `None` for those of the mount.
    pub user: Option<(u32, u32)>,
}

/// Reason why a file has no layout, so that its data goes through the metadata server.
#[derive(Debug, thiserror::Error)]
pub enum NoLayout {
    /// The file system offers no type that this client knows.
    #[error("the server offers {}", show_types(.0))]
    OtherTypes(Vec<u32>),
    /// LAYOUTGET failed.
    #[error("LAYOUTGET: {0}")]
    Refused(CallFailure),
    /// The layout covers only a part of the file.
    #[error("the layout covers only a part of the file")]
    Partial,
    /// GETDEVICEINFO failed.
    #[error("GETDEVICEINFO: {0}")]
    Device(CallFailure),
    /// The layout or a device is malformed, or they don't fit each other.
    #[error("the layout is malformed: {0}")]
    Malformed(DecodeError),
    /// The layout and its device don't fit each other.
    #[error("the layout does not fit its device: {0}")]
    Unusable(&'static str),
    /// A data server can't be used.
    #[error("data server {name}: {reason}")]
    Server {
        /// Its address.
        name: String,
        /// The error, in one line.
        reason: String,
    },
}

impl NoLayout {
    /// Returns true if other files will get none, either.
    pub fn is_for_all(&self) -> bool {
        match self {
            Self::OtherTypes(_) | Self::Server { .. } => true,
            Self::Refused(failure) => failure.status().is_none_or(|status| {
                matches!(
                    status,
                    Status::LayoutUnavailable | Status::NotSupp | Status::UnknownLayoutType
                )
            }),
            _ => false,
        }
    }
}

/// Lists types of layouts by name.
fn show_types(types: &[u32]) -> String {
    if types.is_empty() {
        return "no layouts".into();
    }
    let names: Vec<String> = types.iter().map(|number| layout_name(*number)).collect();
    format!("only {}", names.join(" and "))
}

/// Returns the name of a type of layout.
pub fn layout_name(number: u32) -> String {
    match number {
        layout_type::FILES => "the files layout".into(),
        layout_type::OBJECTS => "the objects layout".into(),
        layout_type::BLOCKS => "the block layout".into(),
        layout_type::FLEX_FILES => "flexible files".into(),
        layout_type::SCSI => "the SCSI layout".into(),
        other => format!("layout type {other}"),
    }
}

impl Mount {
    /// Returns the types of layouts that the file system of a directory or file offers.
    ///
    /// # Errors
    /// [`CallFailure`].
    pub fn layout_types(&mut self, file: File) -> Result<Vec<u32>, CallFailure> {
        let request = Bitmap::from_numbers(&[attribute::FS_LAYOUT_TYPES]);
        let ops = [Op::Putfh { file: file.handle }, Op::Getattr { request }];
        self.control.compound(&ops, |event| match event.result_of(OpCode::Getattr)? {
            OpOk::Getattr { attributes } => {
                let Attributes { layout_types, .. } = attributes.decode_values()?;
                Ok(layout_types.unwrap_or_default().iter().collect())
            }
            _ => Err(unexpected()),
        })
    }

    /// Gets the layout of a whole file that this mount has open, and connects to its data servers.
    ///
    /// # Errors
    /// [`NoLayout`]; a layout that can't be used has been returned.
    pub fn get_layout(
        &mut self,
        file: File,
        iomode: LayoutIoMode,
        choice: LayoutChoice,
        servers: &mut DataServers,
    ) -> Result<FileLayout, NoLayout> {
        let types = match servers.types() {
            Some(types) => types.to_vec(),
            None => servers.set_types(self.layout_types(file).map_err(NoLayout::Refused)?),
        };
        let is_wanted = |offered: &u32| match *offered {
            layout_type::FILES => choice != LayoutChoice::FlexFiles,
            layout_type::FLEX_FILES => choice != LayoutChoice::Files,
            _ => false,
        };
        let Some(layout_type) = types.iter().copied().find(is_wanted) else {
            return Err(NoLayout::OtherTypes(types));
        };
        let ops = layoutget_ops(&file, layout_type, iomode);
        let got = self.control.compound(&ops, |event| GrantedLayout::decode(event, &file));
        let GrantedLayout { stateid, layout, .. } = got.map_err(NoLayout::Refused)?;
        let used = layout.and_then(|parsed| servers.resolve(self, &parsed, stateid));
        if used.is_err() {
            // What is not used must not be recalled later.
            let _ = self.call_layoutreturn(file, layout_type, stateid, &[]);
        }
        used
    }

    /// Returns a layout, and reports errors of its data servers.
    ///
    /// # Errors
    /// [`CallFailure`]; the server then drops it when the lease expires.
    pub fn return_layout(
        &mut self,
        file: File,
        layout: &FileLayout,
        errors: &[DeviceError],
    ) -> Result<(), CallFailure> {
        self.call_layoutreturn(file, layout.layout_type, layout.stateid, errors)
    }

    fn call_layoutreturn(
        &mut self,
        file: File,
        layout_type: u32,
        stateid: Stateid,
        errors: &[DeviceError],
    ) -> Result<(), CallFailure> {
        let mut body = Vec::new();
        write_return_body(&mut body, layout_type, stateid, errors, List::default());
        let ops = return_ops(&file, layout_type, stateid, &body);
        self.control.compound(&ops, |event| event.result_of(OpCode::Layoutreturn).map(drop))
    }
}

/// Returns the operations that get a layout of a whole open file.
pub const fn layoutget_ops(
    file: &File,
    layout_type: u32,
    iomode: LayoutIoMode,
) -> [Op<'static>; 2] {
    let get = Op::Layoutget {
        signal_available: false,
        layout_type,
        iomode,
        offset: 0,
        length: u64::MAX,
        min_length: MIN_LENGTH,
        stateid: file.stateid,
        maxcount: RESULT_BYTES_MAX,
    };
    [Op::Putfh { file: file.handle }, get]
}

/// Writes the body of a LAYOUTRETURN: reports of errors and of how much was read and written, if
/// the type of layout has them.
pub fn write_return_body(
    body: &mut Vec<u8>,
    layout_type: u32,
    stateid: Stateid,
    errors: &[DeviceError],
    stats: List<'_, FlexIoStats<'_>>,
) {
    body.clear();
    if layout_type != layout_type::FLEX_FILES {
        return;
    }
    let mut scratch = Vec::new();
    let mut outer = Vec::new();
    let errors: List<'_, DeviceError> = List::build(&mut scratch, errors.iter().copied());
    let failed = FlexIoError { offset: 0, length: u64::MAX, stateid, errors };
    let failed = (!errors.is_empty()).then_some(failed);
    let report = FlexLayoutReturn { errors: List::build(&mut outer, failed), stats };
    report.encode(&mut Writer::new(body));
}

/// Returns the operations that return the layout of a whole file.
pub const fn return_ops<'a>(
    file: &File,
    layout_type: u32,
    stateid: Stateid,
    body: &'a [u8],
) -> [Op<'a>; 2] {
    let layouts = LayoutReturn::File { offset: 0, length: u64::MAX, stateid, body };
    let iomode = LayoutIoMode::Any;
    [
        Op::Putfh { file: file.handle },
        Op::Layoutreturn { reclaim: false, layout_type, iomode, layouts },
    ]
}

/// Returns the operations that publish what was written to a file up to `end`.
pub const fn commit_ops(file: &File, layout: &FileLayout, end: u64) -> [Op<'static>; 2] {
    let update = LayoutUpdate { layout_type: layout.layout_type, body: &[] };
    let commit = Op::Layoutcommit {
        offset: 0,
        length: u64::MAX,
        reclaim: false,
        stateid: layout.stateid,
        last_write_offset: Some(end.saturating_sub(1)),
        modified: None,
        update,
    };
    [Op::Putfh { file: file.handle }, commit]
}

fn unexpected() -> CallError {
    DecodeError::BadValue { what: "the result", value: 0 }.into()
}
