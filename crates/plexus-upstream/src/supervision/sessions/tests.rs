use super::*;

#[test]
fn longest_idle_connection_is_closed_first() {
    let supervisor = Supervisor::new();
    let clients =
        SessionClients::new(CloseContext { server: "s".to_owned(), supervisor, patience: Duration::ZERO });
    let of = (1, Capabilities::default());
    let sessions: Vec<SessionId> = (0..=MAX_CONNECTIONS).map(|_| SessionId::new()).collect();
    let mut leases: Vec<SessionLease> = Vec::new();
    for session in &sessions[..MAX_CONNECTIONS] {
        leases.push(clients.lease(*session, of).unwrap());
    }
    assert!(clients.lease(sessions[MAX_CONNECTIONS], of).is_none(), "all slots are busy");
    assert!(clients.lease(sessions[3], of).is_some(), "a session with a slot keeps it");
    // The first to end has been idle longest.
    drop(leases.remove(7));
    drop(leases.remove(0));
    assert!(clients.lease(sessions[MAX_CONNECTIONS], of).is_some());
    let there = |session: usize| clients.lock().of.contains_key(&sessions[session]);
    assert_eq!([there(0), there(7), there(MAX_CONNECTIONS)], [true, false, true]);
    clients.drop_idle(Duration::from_secs(60));
    assert!(there(0));
    clients.drop_idle(Duration::ZERO);
    assert_eq!(clients.lock().of.len(), MAX_CONNECTIONS - 2, "slots in use are not closed");
}

fn no_clients() -> SessionClients {
    let supervisor = Supervisor::new();
    SessionClients::new(CloseContext { server: "s".to_owned(), supervisor, patience: Duration::ZERO })
}

#[test]
fn session_reuses_the_connection_with_more_capabilities() {
    let (clients, session) = (no_clients(), SessionId::new());
    let (nothing, roots) = (Capabilities::default(), Capabilities { roots: true, ..Default::default() });
    let form = Capabilities { form: true, ..Default::default() };
    let lease = |can| clients.lease(session, (1, can)).unwrap();
    let first = lease(nothing);
    let wider = lease(roots);
    assert!(!Arc::ptr_eq(&first.0, &wider.0));
    for can in [nothing, roots, nothing] {
        assert!(Arc::ptr_eq(&lease(can).0, &wider.0), "{can:?}");
    }
    assert_eq!(lease(form).capabilities(), form.and(roots), "it is never narrowed");
    assert_eq!(
        clients.lease(session, (2, nothing)).unwrap().capabilities(),
        form.and(roots),
        "a different configuration"
    );
}

#[test]
fn replaced_connection_counts_until_it_is_unused() {
    let clients = no_clients();
    let sessions: Vec<SessionId> = (0..MAX_CONNECTIONS).map(|_| SessionId::new()).collect();
    let of = (1, Capabilities::default());
    let mut leases: Vec<SessionLease> =
        sessions.iter().map(|session| clients.lease(*session, of).unwrap()).collect();
    let wider = (1, Capabilities { roots: true, ..Default::default() });
    assert!(clients.lease(sessions[0], wider).is_none(), "the limit is reached");
    assert!(clients.lease(sessions[0], of).is_some(), "the old slot still works");
    drop(leases.remove(1));
    // The replacement of an idle slot.
    leases.push(clients.lease(sessions[0], wider).unwrap());
    assert!(clients.lease(sessions[1], of).is_none(), "both of the first session are in use");
    drop(leases.remove(0));
    assert!(clients.lease(sessions[1], of).is_some());
}
