//! The OpenAPI document, generated from the routes so that none can be missing.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Extension;
use bytes::Bytes;
use http::HeaderMap;
use plexus_proto::ErrorEnvelope;
use utoipa::openapi::path::{Parameter, ParameterBuilder, ParameterIn};
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityScheme};
use utoipa::openapi::{
    ComponentsBuilder, InfoBuilder, License, OpenApi, OpenApiBuilder, RefOr, Required, Response,
    ResponseBuilder, SecurityRequirement,
};
use utoipa::{IntoResponses, PartialSchema, ToSchema};

use super::{refusals, tag};
use crate::http::{ApiError, Tag, Tagged};

/// Name of the security scheme.
const TOKEN: &str = "token";

/// The document without its routes.
pub(super) fn frame() -> OpenApi {
    let mut schemas = vec![(ErrorEnvelope::name().into_owned(), ErrorEnvelope::schema())];
    ErrorEnvelope::schemas(&mut schemas);
    let bearer = HttpBuilder::new()
        .scheme(HttpAuthScheme::Bearer)
        .bearer_format("JWT")
        .description(Some("From `plexus token create`."))
        .build();
    let components = ComponentsBuilder::new()
        .schemas_from_iter(schemas)
        .responses_from_iter(refusals::all())
        .security_scheme(TOKEN, SecurityScheme::Http(bearer))
        .build();
    let info = InfoBuilder::new()
        .title("Plexus")
        .version(env!("CARGO_PKG_VERSION"))
        .description(Some(
            "The REST API of a Plexus hub. Every error is an `ErrorEnvelope`, and every answer has the id of its \
             request in the header `x-request-id`. Lists are paged: pass `next` as `cursor` to get the next page.",
        ))
        .license(Some(License::new(env!("CARGO_PKG_LICENSE"))))
        .build();
    OpenApiBuilder::new()
        .info(info)
        .components(Some(components))
        .tags(Some(tag::all()))
        .security(Some([SecurityRequirement::new(TOKEN, [""; 0])]))
        .build()
}

/// A read whose answer has an entity tag, so that a client's copy can be confirmed.
#[derive(Debug)]
pub(super) struct Cached;

impl IntoResponses for Cached {
    fn responses() -> BTreeMap<String, RefOr<Response>> {
        let current = ResponseBuilder::new().description("The client's copy is current.").build();
        BTreeMap::from([("304".to_owned(), current.into())])
    }
}

/// Adds the refusals that follow from the form of an operation: those of every operation with a token, with a body, or
/// with parameters. Routes describe only their own.
pub(super) fn describe_refusals(api: &mut OpenApi) {
    let operations = api.paths.paths.values_mut().flat_map(|path| {
        [&mut path.get, &mut path.put, &mut path.post, &mut path.delete, &mut path.patch]
            .into_iter()
            .flatten()
    });
    for operation in operations {
        let mut refusals = BTreeMap::new();
        if operation.security.is_none() {
            refusals.append(&mut refusals::Always::responses());
        }
        if operation.request_body.is_some() {
            refusals.append(&mut refusals::ForBody::responses());
        }
        if operation.parameters.iter().flatten().any(can_be_malformed) {
            refusals.append(&mut refusals::ForParameters::responses());
        }
        operation.responses.responses.append(&mut refusals);
    }
}

/// Headers are not checked, except by the operations that say so.
fn can_be_malformed(parameter: &RefOr<Parameter>) -> bool {
    matches!(parameter, RefOr::T(Parameter { parameter_in: ParameterIn::Path | ParameterIn::Query, .. }))
}

/// Describes the caching of every operation that declares the status 304: its header, and the entity tags of its
/// answers.
pub(super) fn describe_caching(api: &mut OpenApi) {
    let operations = api.paths.paths.values_mut().filter_map(|path| path.get.as_mut());
    for operation in operations.filter(|operation| operation.responses.responses.contains_key("304")) {
        let known = ParameterBuilder::new()
            .name("If-None-Match")
            .parameter_in(ParameterIn::Header)
            .required(Required::False)
            .description(Some("Entity tags of the client's cached copies."))
            .schema(Some(String::schema()));
        operation.parameters.get_or_insert_default().push(RefOr::T(known.build()));
        for status in ["200", "304"] {
            if let Some(RefOr::T(response)) = operation.responses.responses.get_mut(status) {
                let tag = refusals::header("The entity tag of the content.");
                response.headers.insert("ETag".to_owned(), RefOr::T(tag));
            }
        }
    }
}

pub(super) fn text(api: &OpenApi) -> Result<String, serde_json::Error> {
    api.to_pretty_json().map(|json| json + "\n")
}

/// The document, as served.
#[derive(Debug)]
pub(super) struct Document {
    body: Bytes,
    tag: Tag,
}

impl Document {
    pub(super) fn new(api: &OpenApi) -> Result<Self, ApiError> {
        let text = text(api).map_err(|e| ApiError::internal("writing the OpenAPI document", &e))?;
        Ok(Self { tag: Tag::of(text.as_bytes())?, body: text.into() })
    }
}

/// Show this document
///
/// Needs no token.
#[utoipa::path(
    get,
    path = "/openapi.json",
    operation_id = "getOpenApi",
    tag = tag::HUB,
    security(()),
    responses(
        (status = 200, description = "OpenAPI 3.1.", body = Object),
        Cached,
        (status = 403, response = refusals::Forbidden),
        (status = 500, response = refusals::Internal),
    )
)]
pub(super) async fn show(
    Extension(document): Extension<Arc<Result<Document, ApiError>>>,
    headers: HeaderMap,
) -> Result<Tagged, ApiError> {
    match &*document {
        Ok(document) => Ok(Tagged::public(&headers, document.tag.clone(), document.body.clone())),
        Err(error) => Err(error.clone()),
    }
}
