//! Replaces `#[test]`, so that `crate::noise::case` runs every case.
//!
//! It touches tokens only. `#[macro_use] extern crate test_attribute` shadows the `#[test]` of the
//! standard prelude, so cases are written as usual. Start with [`test`].

use proc_macro::{Delimiter, Group, TokenStream, TokenTree};

/// Declares a test of libtest, and passes its name and body to `crate::noise::case`.
#[proc_macro_attribute]
pub fn test(_: TokenStream, item: TokenStream) -> TokenStream {
    let mut tokens: Vec<TokenTree> = item.into_iter().collect();
    let is_keyword =
        |token: &TokenTree| matches!(token, TokenTree::Ident(word) if word.to_string() == "fn");
    let name = tokens
        .iter()
        .position(is_keyword)
        .and_then(|keyword| tokens.get(keyword + 1))
        .map(ToString::to_string);
    match (name, tokens.pop()) {
        (Some(name), Some(TokenTree::Group(body))) if body.delimiter() == Delimiter::Brace => {
            let mut test = parsed("#[::core::prelude::v1::test]");
            test.extend(tokens);
            test.extend([through_case(&name, body)]);
            test
        }
        _ => parsed("compile_error!(\"#[test] belongs to a function\");"),
    }
}

/// `{ crate::noise::case(NAME, || BODY) }`: the body keeps its spans for messages and lints.
fn through_case(name: &str, body: Group) -> TokenTree {
    let mut arguments = parsed(&format!("concat!(module_path!(), \"::{name}\"), ||"));
    arguments.extend([TokenTree::Group(body)]);
    let mut call = parsed("crate::noise::case");
    call.extend([TokenTree::Group(Group::new(Delimiter::Parenthesis, arguments))]);
    TokenTree::Group(Group::new(Delimiter::Brace, call))
}

fn parsed(code: &str) -> TokenStream {
    code.parse().expect("this is Rust")
}
