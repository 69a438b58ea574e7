//! Checks that the profiles are valid, that the tools they name exist, and that every token's profile exists.

use plexus_auth::profiles::{FOLDER, LiveProfiles, ProfileEntry};
use plexus_proto::api::{Profile, Token};

use super::{CheckContext, Finding};
use crate::commands::Invocation;
use crate::listing::{self, ListArgs};
use crate::{client, shell};

const CHECK: &str = "profiles";
/// Most profiles and tokens to fetch.
const MAX_ITEMS: usize = 1_000;

/// Checks the files, and with a running hub also its profiles and tokens.
pub(super) async fn check(
    context: &CheckContext,
    invocation: &Invocation<'_>,
    running: bool,
) -> Vec<Finding> {
    let folder = context.config.data_dir.join(FOLDER);
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
        // A token that may not read them is not a problem of the profiles.
        found.extend(check_in_hub(context, invocation).await.unwrap_or_default());
    }
    if found.is_empty() {
        found.push(Finding::ok(CHECK, format!("usable: {}", profiles.usable().count())));
    }
    found
}

async fn check_in_hub(context: &CheckContext, invocation: &Invocation<'_>) -> anyhow::Result<Vec<Finding>> {
    let profiles: Vec<Profile> = fetch_all(invocation, "profiles").await?;
    let mut found = missing_names(&profiles);
    let tokens: Vec<Token> = fetch_all(invocation, "tokens").await?;
    let alive = tokens.iter().filter(|token| token.state(invocation.out.now()).is_alive());
    found.extend(alive.filter_map(|token| without_profile(token, &profiles, context)));
    Ok(found)
}

/// Names in the folder's profiles that do not exist. The shipped profiles are skipped: they name servers that not everybody has.
fn missing_names(profiles: &[Profile]) -> Vec<Finding> {
    let mut found = Vec::new();
    for profile in profiles {
        let Some(file) = &profile.file else { continue };
        let fix = format!("correct {}, or ignore this until it exists", shell::word(file.as_ref()));
        let warnings = profile.warnings.iter().map(|warning| format!("{}: {warning}", profile.id));
        found.extend(warnings.map(|warning| Finding::warning(CHECK, warning, fix.clone())));
    }
    found
}

/// The finding for a token whose profile does not exist: it sees no tools, and its holder does not know why.
fn without_profile(token: &Token, profiles: &[Profile], context: &CheckContext) -> Option<Finding> {
    let profile = token.profile.as_ref()?;
    let is_missing = !profiles.iter().any(|known| known.id == *profile);
    is_missing.then(|| {
        let (kind, name) = (token.kind, &token.name);
        let message = format!("the {kind} token {name} has the profile {profile}, which does not exist");
        let fix = format!("create the profile, or: {} token revoke {}", context.plexus, token.jti);
        Finding::warning(CHECK, message, fix)
    })
}

async fn fetch_all<T: serde::de::DeserializeOwned>(
    invocation: &Invocation<'_>,
    what: &str,
) -> anyhow::Result<Vec<T>> {
    let args = ListArgs { limit: MAX_ITEMS, cursor: None };
    let page = listing::fetch(&invocation.hub()?, &[what], &[], &args, |_| true).await?;
    page.items.iter().map(|item| client::decode(item)).collect()
}
