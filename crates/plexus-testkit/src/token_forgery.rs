//! Tokens that the hub never issued, signed with its own key: only a thief of the key or a bug could create them.

use std::path::Path;

use aws_lc_rs::signature::Ed25519KeyPair;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::Value;

/// The token with changed claims and a valid signature.
pub fn forge_token(data_dir: &Path, token: &str, change: impl FnOnce(&mut Value)) -> String {
    let mut parts = token.split('.');
    let (header, claims) = (parts.next().expect("a header"), parts.next().expect("claims"));
    let claims = URL_SAFE_NO_PAD.decode(claims).expect("base64");
    let mut claims: Value = serde_json::from_slice(&claims).expect("claims in JSON");
    change(&mut claims);
    let signed = format!("{header}.{}", URL_SAFE_NO_PAD.encode(claims.to_string()));
    let key = std::fs::read(data_dir.join("signing-key")).expect("the hub's key");
    let key = Ed25519KeyPair::from_pkcs8(&key).expect("an Ed25519 key");
    format!("{signed}.{}", URL_SAFE_NO_PAD.encode(key.sign(signed.as_bytes()).as_ref()))
}
