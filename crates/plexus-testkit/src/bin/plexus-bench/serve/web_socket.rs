//! A WebSocket echo server.

use axum::Router;
use axum::extract::WebSocketUpgrade;
use axum::extract::ws::{Message, WebSocket};
use axum::routing::any;

pub(super) fn echo() -> Router {
    Router::new().route("/", any(async |upgrade: WebSocketUpgrade| upgrade.on_upgrade(echo_message)))
}

async fn echo_message(mut socket: WebSocket) {
    while let Some(Ok(message)) = socket.recv().await {
        if matches!(message, Message::Text(_)) && socket.send(message).await.is_err() {
            return;
        }
    }
}
