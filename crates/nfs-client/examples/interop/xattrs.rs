//! Checks of extended attributes, which v4.2 has if its server and file system do.

use nfs_client::proto::client::{File, Operation, Outcome};
use nfs_client::proto::nfs3::Status;
use nfs_client::proto::nfs4::{OpCode, OpOk, XattrOption};

use crate::CheckResult;
use crate::data::is_unsupported;
use crate::names::same;
use crate::tested_client::TestedClient;

/// Size requested for a list of names, in bytes.
const LIST_BYTES: u32 = 4096;

/// Sets, reads, lists, replaces and removes attributes of a file.
pub fn all(client: &mut TestedClient) -> CheckResult {
    let file = client.create("with-attributes")?;
    let get = Operation::Getxattr { file: &file, name: b"one" };
    let set = |option, value| Operation::Setxattr { file: &file, option, name: b"one", value };
    match client.try_one(&set(XattrOption::Create, b"first"))? {
        Ok(Outcome::Done) => {}
        // The export's file system may have none.
        Err(error) if is_unsupported(error.status()) => return client.close(&file),
        other => return Err(format!("SETXATTR gave {other:?}")),
    }
    same("the value", &value_of(client, &get)?, &b"first".to_vec())?;
    client.fails(&set(XattrOption::Create, b"second"), Status::Exist)?;
    let large = vec![b'v'; 3000];
    client.done(&set(XattrOption::Replace, &large))?;
    same("the value after it was replaced", &value_of(client, &get)?, &large)?;
    client.done(&Operation::Setxattr {
        file: &file,
        option: XattrOption::Either,
        name: &b"two"[..],
        value: b"",
    })?;
    same("the names", &names_of(client, &file)?, &vec!["one".to_owned(), "two".to_owned()])?;
    let remove = Operation::Removexattr { file: &file, name: b"one" };
    client.done(&remove)?;
    for operation in [remove, get, set(XattrOption::Replace, b"third")] {
        client.fails(&operation, Status::NoXattr)?;
    }
    same("the names after a removal", &names_of(client, &file)?, &vec!["two".to_owned()])?;
    client.close(&file)
}

fn value_of(client: &mut TestedClient, get: &Operation<'_>) -> Result<Vec<u8>, String> {
    client.event(get, |event| match event.result_of(OpCode::Getxattr) {
        Ok(OpOk::Getxattr { value }) => Ok(value.to_vec()),
        other => Err(format!("GETXATTR: {other:?}")),
    })?
}

/// Lists the names, sorted.
fn names_of(client: &mut TestedClient, file: &File) -> Result<Vec<String>, String> {
    let mut all = Vec::new();
    let mut from = 0;
    loop {
        let list = Operation::Listxattrs { file, cookie: from, bytes: LIST_BYTES };
        let before = all.len();
        let (next, is_end) = client.event(&list, |event| {
            let (cookie, names, eof) = match event.result_of(OpCode::Listxattrs) {
                Ok(OpOk::Listxattrs { cookie, names, eof }) => (cookie, names, eof),
                other => return Err(format!("LISTXATTRS: {other:?}")),
            };
            all.extend(names.iter().map(|name| String::from_utf8_lossy(name).into_owned()));
            Ok((cookie, eof))
        })??;
        // Without progress the loop would never end.
        if is_end || all.len() == before {
            all.sort();
            return Ok(all);
        }
        from = next;
    }
}
