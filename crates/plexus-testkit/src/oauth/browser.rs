//! A person with a browser: opens a URL, fills in the forms, and follows redirects.

use std::collections::BTreeMap;

use reqwest::header::{COOKIE, LOCATION, SET_COOKIE};
use reqwest::{Client, Response, Url, redirect};

/// More pages than any login has.
const MAX_PAGES: usize = 20;

/// Stores cookies, and runs no scripts.
#[derive(Debug)]
pub struct Browser {
    http: Client,
    cookies: BTreeMap<String, String>,
}

impl Browser {
    #[expect(clippy::new_without_default, reason = "a browser is opened on purpose")]
    pub fn new() -> Self {
        let http = Client::builder().no_proxy().redirect(redirect::Policy::none()).build();
        Self { http: http.expect("an HTTP client"), cookies: BTreeMap::new() }
    }

    /// Logs in and agrees to everything; returns the final redirect without opening it.
    pub async fn decide(&mut self, address: &str) -> Url {
        let start = Url::parse(address).expect("an address");
        let back = start.query_pairs().find(|(name, _)| name == "redirect_uri").expect("a way back").1;
        let back = Url::parse(&back).expect("an address");
        let mut next = (start, None);
        for _ in 0..MAX_PAGES {
            let (url, form) = next;
            if url.origin() == back.origin() && url.path() == back.path() {
                return url;
            }
            let answer = self.load(&url, form).await;
            next = match answer.headers().get(LOCATION) {
                Some(location) => (url.join(location.to_str().expect("text")).expect("an address"), None),
                None => fill_in(&url, &answer.text().await.expect("a page")),
            };
        }
        panic!("the login does not end");
    }

    /// The same, and opens the final redirect; returns its page.
    pub async fn log_in(&mut self, address: &str) -> String {
        let back = self.decide(address).await;
        let shown = self.http.get(back).send().await.expect("a page at the end");
        shown.text().await.expect("a page at the end")
    }

    async fn load(&mut self, url: &Url, form: Option<Vec<(String, String)>>) -> Response {
        let cookies: Vec<String> =
            self.cookies.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let request = match &form {
            None => self.http.get(url.clone()),
            Some(fields) => {
                let mut body = Url::parse("http://form/").expect("an address");
                body.query_pairs_mut().extend_pairs(fields);
                let form = "application/x-www-form-urlencoded";
                let body = body.query().unwrap_or_default().to_owned();
                self.http.post(url.clone()).header("content-type", form).body(body)
            }
        };
        let answer = request.header(COOKIE, cookies.join("; ")).send().await.expect("an answer");
        for cookie in answer.headers().get_all(SET_COOKIE) {
            let pair = cookie.to_str().expect("text").split(';').next().unwrap_or_default();
            if let Some((name, value)) = pair.split_once('=') {
                self.cookies.insert(name.to_owned(), value.to_owned());
            }
        }
        answer
    }
}

/// The target and the fields of a page's form.
fn fill_in(page: &Url, html: &str) -> (Url, Option<Vec<(String, String)>>) {
    let form = html.split_once("<form").unwrap_or_else(|| panic!("no form at {page}: {html}")).1;
    let form = form.split("</form>").next().unwrap_or(form);
    let attribute = |tag: &str, name: &str| {
        let value = tag.split_once(&format!("{name}=\""))?.1;
        value.split('"').next().map(|value| value.replace("&amp;", "&"))
    };
    let action = attribute(form, "action").expect("where the form goes");
    let inputs = form.split("<input").skip(1).filter_map(|input| {
        let tag = input.split('>').next()?;
        let name = attribute(tag, "name")?;
        let value = attribute(tag, "value").unwrap_or_else(|| "ann".to_owned());
        Some((name, value))
    });
    (page.join(&action).expect("an address"), Some(inputs.collect()))
}
