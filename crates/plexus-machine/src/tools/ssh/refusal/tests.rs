use super::*;

fn refusal(output: &str) -> CallError {
    let mut transcript = Transcript::default();
    // In pieces, as it arrives.
    output.as_bytes().chunks(7).for_each(|piece| transcript.push(piece));
    transcript.refusal(&Target { host: "nas".to_owned(), user: Some("me".to_owned()), port: Some(2222) })
}

#[test]
fn ssh_output_maps_to_errors() {
    for (output, code, words) in [
        ("me@nas: Permission denied (publickey,password).\n", ErrorCode::Forbidden, "accepts none"),
        (
            "me@nas: Permission denied (password,keyboard-interactive).",
            ErrorCode::Forbidden,
            "passwords only",
        ),
        (
            "Received disconnect from x: Too many authentication failures\n",
            ErrorCode::Forbidden,
            "too many keys",
        ),
        (
            "ssh: Could not resolve hostname nas: Name or service not known\n",
            ErrorCode::NotFound,
            "Could not resolve",
        ),
        ("ssh: connect to host nas port 22: No route to host\n", ErrorCode::Unavailable, "No route to host"),
        (
            "No ED25519 host key is known for nas and you have requested strict checking.",
            ErrorCode::Forbidden,
            "ssh -p 2222 me@nas",
        ),
        (
            "@ WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED! @\nHost key verification failed.",
            ErrorCode::Forbidden,
            "ssh-keygen -R '[nas]:2222'",
        ),
        ("", ErrorCode::Unavailable, "cannot be connected to"),
    ] {
        let error = refusal(output);
        assert_eq!(error.code, code, "{output}");
        assert!(error.text().contains(words), "{output}: {}", error.text());
    }
}

#[test]
fn key_files_and_control_characters_are_not_reported() {
    let output = "debug1: identity file /home/me/.ssh/id_work type 3\ndebug1: Offering public key: /home/me/.ssh/id_work\n\
                Connection closed by \x1b[31m10.0.0.7\x1b[0m port 22\ndebug1: /home/me/.ssh/id_work\n";
    let text = refusal(output).text();
    assert!(text.contains("Connection closed by 10.0.0.7 port 22") && !text.contains("id_work"), "{text:?}");
    // Regardless of the amount of output.
    let text = refusal(&format!("{}{}", "x\n".repeat(100_000), "y".repeat(100_000))).text();
    assert!(text.len() < 2_000, "{}", text.len());
}
