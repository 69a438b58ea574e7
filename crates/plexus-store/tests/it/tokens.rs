//! Rules of issued tokens.

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
    }
}

async fn insert<B: Backend>(db: &Database<B>, token: &Token) {
    let token = token.clone();
    db.store.write(move |conn| Box::pin(async move { conn.insert_token(&token).await })).await.unwrap();
}

pub(crate) async fn a_token_comes_back_as_it_was_stored<B: Backend>(db: Database<B>) {
    for kind in TokenKind::ALL {
        let stored = Token { profile: None, ..token(kind, Some(TokenId::new())) };
        insert(&db, &stored).await;
        assert_eq!(db.store.read().await.unwrap().token(stored.jti).await.unwrap(), Some(stored));
    }
    assert_eq!(db.store.read().await.unwrap().token(TokenId::new()).await.unwrap(), None);
}

pub(crate) async fn revoking_takes_the_family_and_moves_the_epoch<B: Backend>(db: Database<B>) {
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
    // What was revoked earlier keeps its time; what is above or beside stays valid.
    assert_eq!(at_of, [None, Some(at(20)), Some(at(10)), Some(at(10)), None]);
    let mut named = reader.revoked_tokens(at(999)).await.unwrap();
    named.sort();
    assert_eq!(named, [parent.jti, child.jti, grandchild.jti]);
    assert_eq!(reader.revoked_tokens(at(1_000)).await.unwrap(), [], "expired tokens need no revocation");
    drop(reader);

    let epoch_before = epoch().await;
    assert_eq!(revoke(parent.jti, 30).await.unwrap().revoked_at, Some(at(20)));
    assert_eq!(revoke(TokenId::new(), 30).await, None);
    assert_eq!(epoch().await, epoch_before, "nothing was revoked, nothing must be read again");
}

pub(crate) async fn lists_are_newest_first_and_continue_where_the_page_ended<B: Backend>(db: Database<B>) {
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
