use super::*;
use crate::{Access, Outcome, ToolOutput};

fn tool(name: &'static str, description: &'static str) -> Arc<Tool> {
    let spec = ToolSpec::hub(name, name, description, Access::READ);
    let run = |_, _| -> futures_util::future::BoxFuture<'static, _> {
        Box::pin(std::future::ready(Ok(Outcome::Ready(ToolOutput::new("", &())))))
    };
    Arc::new(Tool::upstream(spec, Arc::new(run)))
}

fn names(tools: &[Arc<Tool>], query: &str) -> Vec<String> {
    ranked(tools.iter(), query).into_iter().map(|tool| tool.name().to_owned()).collect()
}

#[test]
fn a_word_that_every_tool_has_decides_nothing() {
    let tools = [
        tool("list_the_files", "Lists the files of the folder, the newest first, with the size of each."),
        tool("send_mail", "Sends a mail to the people you name."),
        tool("weather", "Tells the forecast of the weather."),
    ];
    assert_eq!(names(&tools, "what is the weather forecast")[0], "weather");
    assert_eq!(names(&tools, "send the mail")[0], "send_mail");
}

#[test]
fn words_inside_of_names_are_found_however_they_are_joined() {
    let tools = [tool("createIssue", "Makes one."), tool("delete-branch", "Takes one away.")];
    assert_eq!(names(&tools, "new issue"), ["createIssue"]);
    assert_eq!(names(&tools, "delete branch"), ["delete-branch"]);
    assert!(names(&tools, "nothing of that kind, um, ?!").is_empty());
}
