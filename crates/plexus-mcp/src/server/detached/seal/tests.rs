use super::{Seal, StateError, Ticket};

#[test]
fn state_opens_only_unchanged_and_in_its_process() {
    let (seal, other) = (Seal::new(), Seal::new());
    let ticket = Ticket { id: 7, answer_number: 2, owner: "agent:ann".into(), expires: 99, digest: [3; 32] };
    let state = seal.close(&ticket).unwrap();
    assert!(!state.contains("ann"), "{state}");
    assert_eq!(seal.open(&state), Ok(ticket.clone()));
    assert_ne!(seal.close(&ticket).unwrap(), state, "a new nonce each time");
    assert_eq!(other.open(&state), Err(StateError::Lost));
    for at in 0..state.len() {
        let mut changed = state.clone().into_bytes();
        changed[at] = if changed[at] == b'A' { b'B' } else { b'A' };
        let changed = String::from_utf8(changed).unwrap();
        assert!(seal.open(&changed).is_err(), "{at}: {changed}");
    }
    for nonsense in ["", "v1", "v1.", "v1..", "v2.a.b", &state[..state.len() - 1], &format!("{state}A")] {
        assert!(seal.open(nonsense).is_err(), "{nonsense}");
    }
    // The prefix of one process's state with the ciphertext of another's.
    let (head, _) = state.rsplit_once('.').unwrap();
    let foreign = other.close(&ticket).unwrap();
    let (_, tail) = foreign.rsplit_once('.').unwrap();
    assert_eq!(seal.open(&format!("{head}.{tail}")), Err(StateError::Changed));
}
