//! Rules for issued tokens.

use plexus_proto::TokenId;
use plexus_proto::api::{Token, TokenKind};

use crate::backend::{Backend, Database, at};

fn token(kind: TokenKind, parent: Option<TokenId>) -> Token {
    Token {
        jti: TokenId::new(),
        kind,
        name: "ann".to_owned(),
        scopes: vec!["call:*".to_owned(), "read:*".to_owned()],
        profile: Some("work".to_owned()),
        parent,
        created_at: at(0),
        expires_at: at(1_000),
        revoked_at: None,
        renew_until: Some(at(2_000)),
        last_used_at: None,
        node: Some("nas".to_owned()),
    }
}

async fn insert<B: Backend>(db: &Database<B>, token: &Token) {
    let token = token.clone();
    db.store.write(move |conn| Box::pin(async move { conn.insert_token(&token).await })).await.unwrap();
}

pub(crate) async fn token_round_trips<B: Backend>(db: Database<B>) {
    let renewable = token(TokenKind::Agent, None);
    insert(&db, &renewable).await;
    assert_eq!(db.store.read().await.unwrap().token(renewable.jti).await.unwrap(), Some(renewable));
    for kind in TokenKind::ALL {
        let stored =
            Token { profile: None, node: None, renew_until: None, ..token(kind, Some(TokenId::new())) };
        insert(&db, &stored).await;
        assert_eq!(db.store.read().await.unwrap().token(stored.jti).await.unwrap(), Some(stored));
    }
    assert_eq!(db.store.read().await.unwrap().token(TokenId::new()).await.unwrap(), None);
}

pub(crate) async fn revocation_includes_descendants_and_advances_the_epoch<B: Backend>(db: Database<B>) {
    let root = token(TokenKind::Admin, None);
    let parent = token(TokenKind::User, Some(root.jti));
    let child = token(TokenKind::Agent, Some(parent.jti));
    let grandchild = token(TokenKind::Session, Some(child.jti));
    let sibling = token(TokenKind::User, Some(root.jti));
    for token in [&root, &parent, &child, &grandchild, &sibling] {
        insert(&db, token).await;
    }
    let revoke = |jti: TokenId, now: i64| {
        let store = db.store.clone();
        async move { store.write(move |conn| Box::pin(conn.revoke_token(jti, at(now)))).await.unwrap() }
    };
    let epoch = || async { db.store.read().await.unwrap().revocation_epoch().await.unwrap() };
    let before = epoch().await;

    let revoked = revoke(child.jti, 10).await.unwrap();
    assert_eq!((revoked.jti, revoked.revoked_at), (child.jti, Some(at(10))));
    let after_child = epoch().await;
    assert!(after_child > before);

    revoke(parent.jti, 20).await.unwrap();
    let mut reader = db.store.read().await.unwrap();
    let mut at_of = Vec::new();
    for token in [&root, &parent, &child, &grandchild, &sibling] {
        at_of.push(reader.token(token.jti).await.unwrap().unwrap().revoked_at);
    }
    // Earlier revocations keep their time; ancestors and siblings remain valid.
    assert_eq!(at_of, [None, Some(at(20)), Some(at(10)), Some(at(10)), None]);
    let mut named = reader.revoked_tokens(at(999)).await.unwrap();
    named.sort();
    assert_eq!(named, [(parent.jti, at(20)), (child.jti, at(10)), (grandchild.jti, at(10))]);
    assert_eq!(reader.revoked_tokens(at(1_000)).await.unwrap(), [], "expired tokens need no revocation");
    drop(reader);

    let epoch_before = epoch().await;
    assert_eq!(revoke(parent.jti, 30).await.unwrap().revoked_at, Some(at(20)));
    assert_eq!(revoke(TokenId::new(), 30).await, None);
    assert_eq!(epoch().await, epoch_before, "the epoch changes only with a revocation");
}

pub(crate) async fn lists_are_newest_first_and_paged<B: Backend>(db: Database<B>) {
    let mut made: Vec<_> = (0..5).map(|_| token(TokenKind::Agent, None)).collect();
    for token in &made {
        insert(&db, token).await;
    }
    made.sort_by_key(|token| std::cmp::Reverse(token.jti));
    let mut reader = db.store.read().await.unwrap();
    let first = reader.tokens(None, 3).await.unwrap();
    let second = reader.tokens(first.last().map(|token| token.jti), 3).await.unwrap();
    assert_eq!((first.as_slice(), second.as_slice()), (&made[..3], &made[3..]));
}

async fn stored<B: Backend>(db: &Database<B>, token: &Token) -> Option<Token> {
    db.store.read().await.unwrap().token(token.jti).await.unwrap()
}

pub(crate) async fn revoking_a_holder_revokes_all_of_its_tokens<B: Backend>(db: Database<B>) {
    let of = |kind, name: &str, parent| Token { name: name.to_owned(), ..token(kind, parent) };
    let first = of(TokenKind::Node, "nas", None);
    let renewed = of(TokenKind::Node, "nas", Some(first.jti));
    let (again, other) = (of(TokenKind::Node, "nas", None), of(TokenKind::Node, "vps", None));
    let namesake = of(TokenKind::Agent, "nas", None);
    for token in [&first, &renewed, &again, &other, &namesake] {
        insert(&db, token).await;
    }
    let revoke = || db.store.write(|conn| Box::pin(conn.revoke_tokens_of(TokenKind::Node, "nas", at(10))));
    let epoch = || async { db.store.read().await.unwrap().revocation_epoch().await.unwrap() };
    let before = epoch().await;
    assert_eq!(revoke().await.unwrap(), 3);
    let after = epoch().await;
    assert!(after > before);
    assert_eq!(revoke().await.unwrap(), 0);
    assert_eq!(epoch().await, after);
    let revoked = db.store.read().await.unwrap().revoked_tokens(at(11)).await.unwrap();
    let mut revoked: Vec<_> = revoked.into_iter().map(|(jti, _)| jti).collect();
    revoked.sort();
    assert_eq!(revoked, [first.jti, renewed.jti, again.jti]);
}

fn named(name: &str, parent: Option<TokenId>) -> Token {
    Token { name: name.to_owned(), ..token(TokenKind::Agent, parent) }
}

pub(crate) async fn replaced_token_ends_with_renewals_and_passes_on_its_children<B: Backend>(
    db: Database<B>,
) {
    let old = named("ann", None);
    let renewal = named("ann", Some(old.jti));
    let child = named("ann/a", Some(old.jti));
    let grandchild = named("ann/b", Some(renewal.jti));
    for token in [&old, &renewal, &child, &grandchild] {
        insert(&db, token).await;
    }
    let new = named("ann", None);
    let replace = |new: Token| {
        let (store, old) = (db.store.clone(), old.clone());
        async move {
            let replaced = store.write(move |conn| {
                Box::pin(async move {
                    if !conn.end_token(&old, at(50), at(10)).await? {
                        return Ok(false);
                    }
                    conn.insert_token(&new).await?;
                    conn.adopt_tokens(&old, new.jti).await?;
                    Ok(true)
                })
            });
            replaced.await.unwrap()
        }
    };
    let before = db.store.read().await.unwrap().revocation_epoch().await.unwrap();
    assert!(replace(new.clone()).await);
    assert!(!replace(named("ann", None)).await, "a token was replaced twice");

    let mut found = Vec::new();
    for token in [&old, &renewal, &child, &grandchild, &new] {
        let token = stored(&db, token).await.unwrap();
        found.push((token.parent, token.revoked_at));
    }
    let expected = [
        (None, Some(at(50))),
        (Some(old.jti), Some(at(50))),
        (Some(new.jti), None),
        (Some(new.jti), None),
        (None, None),
    ];
    assert_eq!(found, expected);
    assert!(db.store.read().await.unwrap().revocation_epoch().await.unwrap() > before);

    // During its grace period and afterwards it mints nothing, including renewals.
    for (name, when) in [("ann", 20), ("ann/c", 20), ("ann", 50), ("ann/c", 50)] {
        let late = Token { created_at: at(when), ..named(name, Some(old.jti)) };
        insert(&db, &late).await;
        assert_eq!(stored(&db, &late).await, None, "{name} at {when}");
    }
    // A revocation takes effect before a future end.
    let jti = old.jti;
    let revoked = db.store.write(move |conn| Box::pin(conn.revoke_token(jti, at(30)))).await.unwrap();
    assert_eq!(revoked.unwrap().revoked_at, Some(at(30)));
    assert_eq!(stored(&db, &renewal).await.unwrap().revoked_at, Some(at(30)));
}

pub(crate) async fn purge_reparents_children_to_the_nearest_ancestor<B: Backend>(db: Database<B>) {
    let expiring =
        |expires: i64, parent: Option<TokenId>| Token { expires_at: at(expires), ..named("x", parent) };
    let root = expiring(1_000, None);
    let mut line = vec![expiring(10, Some(root.jti))];
    for _ in 0..5 {
        let parent = line.last().map(|token| token.jti);
        line.push(expiring(10, parent));
    }
    let living = expiring(1_000, line.last().map(|token| token.jti));
    let orphan = expiring(1_000, Some(TokenId::new()));
    let on_the_edge = expiring(20, Some(line[0].jti));
    for token in line.iter().chain([&root, &living, &orphan, &on_the_edge]) {
        insert(&db, token).await;
    }
    let purge = || db.store.write(|conn| Box::pin(conn.purge_tokens(at(20))));
    assert_eq!(purge().await.unwrap(), 6);
    assert_eq!(purge().await.unwrap(), 0);
    assert_eq!(stored(&db, &line[3]).await, None);
    for (token, parent) in
        [(&living, Some(root.jti)), (&on_the_edge, Some(root.jti)), (&orphan, orphan.parent)]
    {
        assert_eq!(stored(&db, token).await.unwrap().parent, parent);
    }
    let jti = root.jti;
    db.store.write(move |conn| Box::pin(conn.revoke_token(jti, at(30)))).await.unwrap();
    assert_eq!(stored(&db, &living).await.unwrap().revoked_at, Some(at(30)), "the ancestry was lost");
}

pub(crate) async fn ancestry_is_resolved_at_any_depth<B: Backend>(db: Database<B>) {
    let root = named("a", None);
    let child = named("b", Some(root.jti));
    let grandchild = named("c", Some(child.jti));
    let sibling = named("d", Some(root.jti));
    for token in [&root, &child, &grandchild, &sibling] {
        insert(&db, token).await;
    }
    let mut reader = db.store.read().await.unwrap();
    let mut descends = async |a: &Token, b: &Token| reader.token_descends_from(a.jti, b.jti).await.unwrap();
    assert!(descends(&grandchild, &root).await && descends(&grandchild, &child).await);
    assert!(!descends(&root, &grandchild).await && !descends(&grandchild, &sibling).await);
    assert!(!descends(&child, &child).await);
    assert_eq!(reader.token_children(root.jti).await.unwrap(), 2);
    assert_eq!(reader.token_children(grandchild.jti).await.unwrap(), 0);
}

pub(crate) async fn last_use_of_a_token_never_decreases<B: Backend>(db: Database<B>) {
    let (first, second) = (named("a", None), named("b", None));
    insert(&db, &first).await;
    insert(&db, &second).await;
    for used in
        [vec![(first.jti, at(5)), (second.jti, at(6))], vec![(first.jti, at(4)), (TokenId::new(), at(9))]]
    {
        db.store.write(move |conn| Box::pin(async move { conn.touch_tokens(&used).await })).await.unwrap();
    }
    assert_eq!(stored(&db, &first).await.unwrap().last_used_at, Some(at(5)));
    assert_eq!(stored(&db, &second).await.unwrap().last_used_at, Some(at(6)));
}
