//! Tokens: derived from real ones by changes that keep them almost valid.
//!
//! Only the exact text of a minted and unrevoked token is accepted. Random bytes would never get past the first
//! dot, so an input is a list of changes to a real token and a way to sign the result.

use arbitrary::{Arbitrary, Unstructured};
use aws_lc_rs::hmac;
use aws_lc_rs::signature::{Ed25519KeyPair, KeyPair};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Map, Value, json};

use super::Target;
use super::wire::Wire;

/// Maximum number of changes to one token; more find nothing new.
const MAX_CHANGES: usize = 8;

pub struct TokenTarget {
    wire: Wire,
    minted: [Minted; 3],
    /// The public half of the hub's key, which is not secret.
    public_key: Vec<u8>,
    /// The forger's own key.
    own_key: Ed25519KeyPair,
}

struct Minted {
    token: String,
    revoked: bool,
}

/// The original token, the changes, and the signature.
#[derive(Debug, Arbitrary)]
struct Forgery<'a> {
    from: Source,
    changes: Vec<Change<'a>>,
    signature: Signature<'a>,
    scheme: Scheme,
}

#[derive(Debug, Clone, Copy, Arbitrary)]
enum Source {
    Agent,
    Other,
    Revoked,
}

#[derive(Debug, Arbitrary)]
enum Change<'a> {
    Header(HeaderField, Scalar<'a>),
    Claim(ClaimField, Scalar<'a>),
    /// A duplicate member, the second one as text.
    Twice(ClaimField, Scalar<'a>),
    Graft(Part, Source),
    Flip {
        at: u16,
        bit: u8,
    },
    Insert {
        at: u16,
        text: &'a str,
    },
    Remove {
        at: u16,
        length: u8,
    },
}

#[derive(Debug, Arbitrary)]
enum HeaderField {
    Alg,
    Kid,
    Typ,
    Crit,
    Jwk,
    Zip,
}

#[derive(Debug, Arbitrary)]
enum ClaimField {
    Jti,
    Kind,
    Sub,
    Scopes,
    Profile,
    Aud,
    Exp,
    Nbf,
}

#[derive(Debug, Arbitrary)]
enum Part {
    Header,
    Claims,
    Signature,
}

#[derive(Debug, Arbitrary)]
enum Scalar<'a> {
    Absent,
    Null,
    Number(i64),
    Text(&'a str),
    List(Vec<&'a str>),
    None,
    Hs256,
    EdDsa,
    Admin,
    All,
}

#[derive(Debug, Arbitrary)]
enum Signature<'a> {
    Kept,
    Empty,
    OwnKey,
    /// Uses the public key as a shared secret.
    PublicKeyAsSecret,
    Bytes(&'a [u8]),
}

#[derive(Debug, Arbitrary)]
enum Scheme {
    Bearer,
    LowerCase,
    Basic,
    None,
}

impl Target for TokenTarget {
    const NAME: &'static str = "token";

    fn start() -> Self {
        let wire = Wire::start();
        let hub = wire.hub();
        let minted = wire.wait(async {
            let (agent, other) =
                (hub.token("agent", &["call:*"]).await, hub.token("other", &["call:todo"]).await);
            let revoked = hub.token("revoked", &["call:*"]).await;
            hub.revoke(revoked.jti).await;
            [
                Minted { token: agent.token, revoked: false },
                Minted { token: other.token, revoked: false },
                Minted { token: revoked.token, revoked: true },
            ]
        });
        let pkcs8 = std::fs::read(hub.data_dir().join("signing-key")).expect("the hub's key");
        let key = Ed25519KeyPair::from_pkcs8(&pkcs8).expect("an Ed25519 key");
        let own_key = Ed25519KeyPair::generate().expect("a key");
        Self { wire, minted, public_key: key.public_key().as_ref().to_vec(), own_key }
    }

    fn run(&mut self, input: &[u8]) {
        let Ok(forgery) = Forgery::arbitrary_take_rest(Unstructured::new(input)) else { return };
        let text = self.build_token(&forgery);
        let scheme = match forgery.scheme {
            Scheme::Bearer => "Bearer ",
            Scheme::LowerCase => "bearer ",
            Scheme::Basic => "Basic ",
            Scheme::None => "",
        };
        let head =
            format!("GET /api/v1/tools HTTP/1.1\r\nHost: localhost\r\nAuthorization: {scheme}{text}\r\n");
        let reply = self.wire.ask(head.as_bytes(), b"");
        // The value after the scheme starts at the first character that is not a space.
        let presented =
            head.lines().last().and_then(|line| line.strip_prefix("Authorization:")).unwrap_or_default();
        let (given, token) = presented.trim().split_once(' ').unwrap_or_default();
        let is_good = self.minted.iter().any(|minted| minted.token == token.trim() && !minted.revoked);
        let expected =
            if presented.is_ascii() && given.eq_ignore_ascii_case("bearer") && is_good { 200 } else { 401 };
        assert_eq!(reply.status, expected, "{forgery:?} made {presented:?}: {reply:?}");
    }
}

impl std::fmt::Debug for TokenTarget {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TokenTarget").finish_non_exhaustive()
    }
}

impl TokenTarget {
    fn minted(&self, source: Source) -> &str {
        let index = match source {
            Source::Agent => 0,
            Source::Other => 1,
            Source::Revoked => 2,
        };
        &self.minted[index].token
    }

    /// The text of a token, without characters that a header cannot contain.
    fn build_token(&self, forgery: &Forgery<'_>) -> String {
        let mut parts: Vec<String> = self.minted(forgery.from).split('.').map(str::to_owned).collect();
        let (edits, structure): (Vec<_>, Vec<_>) =
            forgery.changes.iter().take(MAX_CHANGES).partition(|change| {
                matches!(change, Change::Flip { .. } | Change::Insert { .. } | Change::Remove { .. })
            });
        for change in structure {
            match change {
                Change::Header(field, value) => parts[0] = with_member(&parts[0], field.name(), value.json()),
                Change::Claim(field, value) => parts[1] = with_member(&parts[1], field.name(), value.json()),
                Change::Twice(field, value) => parts[1] = with_second(&parts[1], field.name(), value.json()),
                Change::Graft(part, source) => {
                    let index = match part {
                        Part::Header => 0,
                        Part::Claims => 1,
                        Part::Signature => 2,
                    };
                    parts[index] = self.minted(*source).split('.').nth(index).unwrap_or_default().to_owned();
                }
                Change::Flip { .. } | Change::Insert { .. } | Change::Remove { .. } => {}
            }
        }
        let message = format!("{}.{}", parts[0], parts[1]);
        let signature = match forgery.signature {
            Signature::Kept => parts[2].clone(),
            Signature::Empty => String::new(),
            Signature::OwnKey => URL_SAFE_NO_PAD.encode(self.own_key.sign(message.as_bytes())),
            Signature::PublicKeyAsSecret => {
                let key = hmac::Key::new(hmac::HMAC_SHA256, &self.public_key);
                URL_SAFE_NO_PAD.encode(hmac::sign(&key, message.as_bytes()))
            }
            Signature::Bytes(bytes) => URL_SAFE_NO_PAD.encode(bytes),
        };
        let mut text = format!("{message}.{signature}").into_bytes();
        for edit in edits {
            let index = |at: u16| usize::from(at) % (text.len() + 1);
            match edit {
                Change::Flip { at, bit } => {
                    let at = index(*at);
                    if let Some(byte) = text.get_mut(at) {
                        *byte ^= 1 << (bit % 8);
                    }
                }
                Change::Insert { at, text: more } => {
                    let at = index(*at);
                    text.splice(at..at, more.bytes());
                }
                Change::Remove { at, length } => {
                    let at = index(*at);
                    let end = (at + usize::from(*length)).min(text.len());
                    text.drain(at..end);
                }
                _ => {}
            }
        }
        String::from_utf8_lossy(&text).chars().filter(|c| !c.is_control()).collect()
    }
}

fn members(part: &str) -> Map<String, Value> {
    let bytes = URL_SAFE_NO_PAD.decode(part).unwrap_or_default();
    serde_json::from_slice(&bytes).unwrap_or_default()
}

fn with_member(part: &str, name: &str, value: Option<Value>) -> String {
    let mut members = members(part);
    match value {
        Some(value) => members.insert(name.to_owned(), value),
        None => members.remove(name),
    };
    URL_SAFE_NO_PAD.encode(Value::Object(members).to_string())
}

fn with_second(part: &str, name: &str, value: Option<Value>) -> String {
    let first = Value::Object(members(part)).to_string();
    let second = json!({ name: value }).to_string();
    URL_SAFE_NO_PAD.encode(format!("{},{}", first.trim_end_matches('}'), second.trim_start_matches('{')))
}

impl HeaderField {
    fn name(&self) -> &'static str {
        match self {
            Self::Alg => "alg",
            Self::Kid => "kid",
            Self::Typ => "typ",
            Self::Crit => "crit",
            Self::Jwk => "jwk",
            Self::Zip => "zip",
        }
    }
}

impl ClaimField {
    fn name(&self) -> &'static str {
        match self {
            Self::Jti => "jti",
            Self::Kind => "kind",
            Self::Sub => "sub",
            Self::Scopes => "scopes",
            Self::Profile => "profile",
            Self::Aud => "aud",
            Self::Exp => "exp",
            Self::Nbf => "nbf",
        }
    }
}

impl Scalar<'_> {
    fn json(&self) -> Option<Value> {
        Some(match self {
            Self::Absent => return None,
            Self::Null => Value::Null,
            Self::Number(number) => json!(number),
            Self::Text(text) => json!(text),
            Self::List(list) => json!(list),
            Self::None => json!("none"),
            Self::Hs256 => json!("HS256"),
            Self::EdDsa => json!("EdDSA"),
            Self::Admin => json!("admin:root"),
            Self::All => json!(["*"]),
        })
    }
}
