//! The answers that say no, as the OpenAPI document describes them: one per status, all with the
//! same envelope. A route names those it can give.

use std::collections::BTreeMap;

use plexus_proto::ErrorEnvelope;
use utoipa::openapi::header::{Header, HeaderBuilder};
use utoipa::openapi::{ContentBuilder, ObjectBuilder, Ref, RefOr, Response, ResponseBuilder, Type};
use utoipa::{IntoResponses, ToResponse, ToSchema};

macro_rules! refusals {
    ($($name:ident $status:literal $description:literal;)*) => {
        $(
            #[derive(Debug)]
            pub(super) struct $name;

            impl $name {
                const STATUS: &str = $status;
            }

            impl<'r> ToResponse<'r> for $name {
                fn response() -> (&'r str, RefOr<Response>) {
                    (stringify!($name), refusal(Self::STATUS, $description).into())
                }
            }
        )*

        /// All of them by name.
        pub(super) fn all() -> Vec<(&'static str, RefOr<Response>)> {
            vec![$($name::response()),*]
        }
    };
}

refusals! {
    BadRequest "400" "The request is malformed.";
    Unauthenticated "401" "No token, or one that is not valid (any more).";
    Forbidden "403" "The token does not reach this far, or the `Host` or `Origin` may not use the hub.";
    NotFound "404" "There is no such thing, or the token may not know that there is.";
    BodyTimeout "408" "The body did not arrive in time.";
    Conflict "409" "The state of the thing does not allow it.";
    TooLarge "413" "The body is larger than the hub takes.";
    NotJson "415" "The body is not `application/json`.";
    Overloaded "429" "Too much at once; nothing ran.";
    Internal "500" "A fault of the hub; its log has the details under the request id.";
    Unavailable "503" "The hub is starting or stopping, or its database is away.";
    DeadlineExceeded "504" "The tool did not end in time.";
}

fn refusal(status: &str, description: &str) -> Response {
    let envelope = ContentBuilder::new().schema(Some(Ref::from_schema_name(ErrorEnvelope::name()))).build();
    let response = ResponseBuilder::new()
        .description(description)
        .content("application/json", envelope)
        .header("x-request-id", header("The request in the hub's log."));
    match status {
        "401" => response.header("www-authenticate", header("How to authenticate.")),
        "429" | "503" | "504" => {
            response.header("retry-after", header("Seconds to wait before trying again."))
        }
        _ => response,
    }
    .build()
}

fn header(description: &str) -> Header {
    let text = ObjectBuilder::new().schema_type(Type::String).build();
    HeaderBuilder::new().schema(Some(text)).description(Some(description)).build()
}

/// Refers to a refusal by its status.
macro_rules! by_status {
    ($($name:ident),*) => {
        BTreeMap::from([$(($name::STATUS.to_owned(), Ref::from_response_name(stringify!($name)).into())),*])
    };
}

/// What every route that wants a token can answer.
#[derive(Debug)]
pub(super) struct Always;

impl IntoResponses for Always {
    fn responses() -> BTreeMap<String, RefOr<Response>> {
        by_status![Unauthenticated, Forbidden, Overloaded, Internal, Unavailable]
    }
}

/// What every route that takes a body can answer besides.
#[derive(Debug)]
pub(super) struct ForBody;

impl IntoResponses for ForBody {
    fn responses() -> BTreeMap<String, RefOr<Response>> {
        by_status![BadRequest, BodyTimeout, TooLarge, NotJson]
    }
}
