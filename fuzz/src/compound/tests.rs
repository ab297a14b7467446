//! What compounds of the fuzzer reach at the server.

use super::*;

/// Executes each operation once, with a client and then without one, including operations
/// without an arm here.
#[test]
fn sends_every_operation_of_table() {
    for minor in 0..3 {
        for introduced in [true, false] {
            let mut steps = Vec::new();
            for code in OpCode::ALL {
                let step = Step::of_codes(&[OpCode::Putrootfh, *code]);
                steps.push(Step { in_session: minor > 0, ..step });
            }
            for some in steps.chunks(STEPS_MAX) {
                check_compounds(&Run { minor, introduced, steps: some.to_vec() });
            }
        }
    }
}

/// The fuzzer gets as far as a layout that is published and returned.
#[test]
fn reaches_layouts_of_both_types() {
    // Creates the file "a" and opens it for writing.
    let open = Choice { which: 65, much: 0x83, ..Choice::of_code(OpCode::Open) };
    for (minor, much) in [(FLEX_MINORS + 2, 0), (FILES_MINORS + 2, 0x40)] {
        let enter = [OpCode::Putrootfh, OpCode::Lookup].map(Choice::of_code);
        let lookup = Choice { much: 1, ..Choice::of_code(OpCode::Lookup) };
        let mut steps = vec![[&enter[..], &[open]].concat()];
        // Each uses the stateid of the one before.
        for code in [
            OpCode::Layoutget,
            OpCode::Layoutcommit,
            OpCode::Getdeviceinfo,
            OpCode::Layoutstats,
            OpCode::Layouterror,
            OpCode::Layoutreturn,
        ] {
            let one = Choice { much, ..Choice::of_code(code) };
            steps.push([&enter[..], &[lookup, one]].concat());
        }
        let in_session = |ops| Step { in_session: true, again: false, slot: 0, ops };
        let steps = steps.into_iter().map(in_session).collect();
        let rig = run_compounds(&Run { minor, introduced: true, steps });
        let counters = rig.server.counters();
        assert_eq!((counters.layouts_granted, counters.layouts_returned), (1, 1));
        assert_ne!(rig.known.device, DeviceId::default());
        assert_eq!(counters.errors.values().sum::<u64>(), 0, "{:?}", counters.errors);
    }
}

#[test]
fn has_arguments_for_every_operation() {
    let known = ServerIds { stateids: vec![Stateid::ANONYMOUS], ..ServerIds::default() };
    let attributes = Fattr::decode(&mut Reader::new(&ATTRIBUTES)).unwrap();
    let security = List::decode(&mut Reader::new(&[0; 4])).unwrap();
    let mut made = 0;
    for code in OpCode::ALL {
        let choice = Choice::of_code(*code);
        let (no_servers, device_errors) = (List::default(), List::default());
        let known = &known;
        let parts = Parts { known, choice, attributes, security, no_servers, device_errors };
        let arguments = parts.any_arguments();
        let Some(op) = parts.make_op(&arguments) else { continue };
        assert_eq!(op.code(), *code);
        made += 1;
    }
    let understood = OpCode::ALL
        .iter()
        .filter(|code| !matches!(Op::decode(**code, &mut Reader::new(&[0; 256])), Ok(None)));
    assert_eq!(made, understood.count());
}
