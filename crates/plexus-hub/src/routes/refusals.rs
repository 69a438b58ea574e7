//! The error responses of the OpenAPI document: one per status, all with the same envelope. A route names those of its
//! own; `openapi::describe_refusals` adds those that follow from its form.

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

        /// All responses with their names.
        pub(super) fn all() -> Vec<(&'static str, RefOr<Response>)> {
            vec![$($name::response()),*]
        }
    };
}

refusals! {
    BadRequest "400" "The request is malformed.";
    Unauthenticated "401" "No token was sent, or it is invalid or expired.";
    Forbidden "403" "The token lacks the permission, or the `Host` or `Origin` is not allowed.";
    NotFound "404" "The resource does not exist, or the token may not know that it exists.";
    BodyTimeout "408" "The body did not arrive in time.";
    Conflict "409" "The current state of the resource does not allow the request.";
    TooLarge "413" "The body exceeds the hub's limit.";
    NotJson "415" "The body is not `application/json`.";
    Overloaded "429" "The hub is overloaded; nothing was executed.";
    Internal "500" "Internal error of the hub; its log has the details under the request id.";
    Unavailable "503" "The hub is starting or stopping, or its database is unavailable.";
    DeadlineExceeded "504" "The tool did not finish in time.";
}

fn refusal(status: &str, description: &str) -> Response {
    let envelope = ContentBuilder::new().schema(Some(Ref::from_schema_name(ErrorEnvelope::name()))).build();
    let response = ResponseBuilder::new()
        .description(description)
        .content("application/json", envelope)
        .header("x-request-id", header("Id of the request in the hub's log."));
    match status {
        "401" => response.header("www-authenticate", header("How to authenticate.")),
        "429" | "503" | "504" => {
            response.header("retry-after", header("Seconds to wait before trying again."))
        }
        _ => response,
    }
    .build()
}

pub(super) fn header(description: &str) -> Header {
    let text = ObjectBuilder::new().schema_type(Type::String).build();
    HeaderBuilder::new().schema(Some(text)).description(Some(description)).build()
}

/// Refers to an error response by its status.
macro_rules! by_status {
    ($($name:ident),*) => {
        BTreeMap::from([$(($name::STATUS.to_owned(), Ref::from_response_name(stringify!($name)).into())),*])
    };
}

/// The error responses of every route that requires a token.
#[derive(Debug)]
pub(super) struct Always;

impl IntoResponses for Always {
    fn responses() -> BTreeMap<String, RefOr<Response>> {
        by_status![Unauthenticated, Forbidden, Overloaded, Internal, Unavailable]
    }
}

/// The additional error responses of every route with a request body.
#[derive(Debug)]
pub(super) struct ForBody;

impl IntoResponses for ForBody {
    fn responses() -> BTreeMap<String, RefOr<Response>> {
        by_status![BadRequest, BodyTimeout, TooLarge, NotJson]
    }
}

/// The additional error responses of every route with parameters in its path or query.
#[derive(Debug)]
pub(super) struct ForParameters;

impl IntoResponses for ForParameters {
    fn responses() -> BTreeMap<String, RefOr<Response>> {
        by_status![BadRequest]
    }
}
