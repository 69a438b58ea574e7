//! Whether the profiles can be used, whether what they name is there, and whether every token has one that is.

use plexus_auth::profiles::{FOLDER, LiveProfiles, ProfileEntry};
use plexus_proto::api::{Profile, Token};

use super::{Finding, Subject};
use crate::commands::Invocation;
use crate::listing::{self, ListArgs};
use crate::{client, shell};

const CHECK: &str = "profiles";
/// Profiles and tokens that are asked for.
const MOST: usize = 1_000;

/// What the files say by themselves, and what a running hub makes of them.
pub(super) async fn check(subject: &Subject, invocation: &Invocation<'_>, running: bool) -> Vec<Finding> {
    let folder = subject.config.data_dir.join(FOLDER);
    let profiles = LiveProfiles::open(folder.clone()).load();
    let mut found = Vec::new();
    for (_, entry) in profiles.iter() {
        let ProfileEntry { profile: Err(problems), .. } = entry else { continue };
        found.extend(problems.iter().map(|problem| {
            let fix = format!("correct {}; until then its tokens see no tools", shell::word(&problem.file));
            Finding::problem(CHECK, problem.to_string(), fix)
        }));
    }
    if running {
        // A token that may not read them is no problem of the profiles.
        found.extend(as_the_hub_has_them(subject, invocation).await.unwrap_or_default());
    }
    if found.is_empty() {
        found.push(Finding::ok(CHECK, format!("usable: {}", profiles.usable().count())));
    }
    found
}

async fn as_the_hub_has_them(subject: &Subject, invocation: &Invocation<'_>) -> anyhow::Result<Vec<Finding>> {
    let profiles: Vec<Profile> = all(invocation, "profiles").await?;
    let mut found = named_in_vain(&profiles);
    let tokens: Vec<Token> = all(invocation, "tokens").await?;
    let alive = tokens.iter().filter(|token| token.state(invocation.out.now()).is_alive());
    found.extend(alive.filter_map(|token| without_profile(token, &profiles, subject)));
    Ok(found)
}

/// What profiles of this folder name and is not there. The shipped ones name servers that not everybody has.
fn named_in_vain(profiles: &[Profile]) -> Vec<Finding> {
    let mut found = Vec::new();
    for profile in profiles {
        let Some(file) = &profile.file else { continue };
        let fix = format!("correct {}, or let it be until it is there", shell::word(file.as_ref()));
        let told = profile.warnings.iter().map(|told| format!("{}: {told}", profile.id));
        found.extend(told.map(|told| Finding::warning(CHECK, told, fix.clone())));
    }
    found
}

/// A token of a profile that is not there sees nothing, and its holder does not know why.
fn without_profile(token: &Token, profiles: &[Profile], subject: &Subject) -> Option<Finding> {
    let profile = token.profile.as_ref()?;
    let gone = !profiles.iter().any(|known| known.id == *profile);
    gone.then(|| {
        let (kind, name) = (token.kind, &token.name);
        let message = format!("the {kind} token {name} has the profile {profile}, which is not there");
        let fix = format!("make the profile, or: {} token revoke {}", subject.plexus, token.jti);
        Finding::warning(CHECK, message, fix)
    })
}

async fn all<T: serde::de::DeserializeOwned>(
    invocation: &Invocation<'_>,
    what: &str,
) -> anyhow::Result<Vec<T>> {
    let args = ListArgs { limit: MOST, cursor: None };
    let page = listing::fetch(&invocation.hub()?, &[what], &[], &args, |_| true).await?;
    page.items.iter().map(|item| client::decode(item)).collect()
}
