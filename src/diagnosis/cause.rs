//! The causes of failures: names, stages, advice, and the words that give them away.

use core::fmt;

/// What failed first, in the order of a session's life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "kebab-case"))]
#[non_exhaustive]
pub enum FailureStage {
    /// The start of a program, and its life.
    Spawn,
    /// The way to a server: its name, its address, a proxy.
    Transport,
    /// The certificate, and what else TLS needs.
    Tls,
    /// What answers there, before it is MCP.
    Http,
    /// The server demands a token, or refuses who asks.
    Authorization,
    /// `server/discover` and `initialize`.
    Handshake,
    /// The lists.
    Discovery,
    /// The connection was in use.
    Call,
}

impl FailureStage {
    /// The stage's stable name, in kebab case.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Spawn => "spawn",
            Self::Transport => "transport",
            Self::Tls => "tls",
            Self::Http => "http",
            Self::Authorization => "authorization",
            Self::Handshake => "handshake",
            Self::Discovery => "discovery",
            Self::Call => "call",
        }
    }
}

/// Where words that give a cause away are looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Source {
    /// The system's reason why a program did not start.
    Start,
    /// A line of a program, or what a server over stdio says.
    Program,
    /// The same, where no sign of `Program` is in it.
    ProgramHint,
    /// Why no connection came about, or why it ended.
    Network,
    /// A failure of the handshake, of discovery or of an authorization.
    Answer,
}

/// Defines the causes. An empty finding stands for the words that were found. A cause is recognized by any of its signs, in
/// lower case, of which one at the beginning of a line begins with `\n`, and `*` stands for anything; the first cause of the table
/// wins.
macro_rules! causes {
    ($(
        $(#[$doc:meta])*
        $cause:ident = $name:literal, $stage:ident, $finding:literal, $advice:literal $(, $source:ident: [$($sign:literal),*])*;
    )*) => {
        /// The causes of failures.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
        #[non_exhaustive]
        pub enum FailureCause {
            $($(#[$doc])* #[cfg_attr(feature = "serde", serde(rename = $name))] $cause,)*
        }

        impl FailureCause {
            /// Every cause.
            pub const ALL: &'static [Self] = &[$(Self::$cause),*];

            /// The cause's stable name, in kebab case.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$cause => $name,)* }
            }

            /// What failed.
            pub const fn stage(self) -> FailureStage {
                match self { $(Self::$cause => FailureStage::$stage,)* }
            }

            /// What can be done, in a sentence or two.
            pub const fn advice(self) -> &'static str {
                match self { $(Self::$cause => $advice,)* }
            }

            /// What is wrong, if that is always the same.
            pub(super) const fn finding(self) -> &'static str {
                match self { $(Self::$cause => $finding,)* }
            }

            fn signs(self, source: Source) -> &'static [&'static str] {
                match (self, source) {
                    $($((Self::$cause, Source::$source) => &[$($sign),*],)*)*
                    _ => &[],
                }
            }
        }
    };
}

causes! {
    /// `npx` asks whether it may install the package, and nobody answers.
    ConsentAwaited = "consent-awaited", Spawn, "npx asks whether it may install the package, and nobody can answer",
        "Add `-y` before the name of the package: `npx -y PACKAGE`.",
        Program: ["ok to proceed?", "need to install the following packages", "no yes option"];
    /// The user has to log in first.
    LoginAwaited = "login-awaited", Spawn, "", "Log in as its own words say, and start it again.",
        Program: ["to authenticate, visit", "please log in", "please login", "open this url to authorize", "open the following url",
            "visit this url", "enter the code", "not logged in", "login required"];
    /// The program is an HTTP server.
    ServesHttp = "serves-http", Handshake, "this program serves HTTP%url, and not MCP over stdio",
        "Connect to its URL, often with `/mcp` or `/sse` at the end; or find its option for stdio.",
        Program: ["running on http", "listening on http", "listening at http", "running at http", "started at http",
            "started on http", "serving on http", "serving at http", "available at http", "server at http",
            "server listening on port", "listening on port", "running on port", "started on port", "serving http on"];
    /// The package is being downloaded.
    Downloading = "downloading", Spawn, "it is still being downloaded or installed",
        "A first start takes long: give it more time, or install the package before.",
        Program: ["was not found and will be installed", "will be installed:", "downloading ", "pulling from", "resolving dependencies",
            "preparing packages", "building wheels", "installing dependencies"];
    /// The folder that the program is to start in does not exist.
    FolderMissing = "folder-missing", Spawn, "", "Create the folder, or correct the entry's `cwd`.", Start: ["there is no folder"];
    /// There is no such command.
    CommandNotFound = "command-not-found", Spawn, "there is no such command%command",
        "Is it installed, spelt right and on the PATH? Try it in a shell.",
        Start: ["os error 2)", "os error 3)", "no such file", "cannot find the file", "entity not found", "program not found",
            "no program"],
        Program: ["command not found", "sh: *: not found", "is not recognized as an internal or external command",
            "could not determine executable to run"];
    /// The file may not be executed.
    CommandNotExecutable = "command-not-executable", Spawn, "it may not be executed%command",
        "Make it executable (`chmod +x`), or give it to its interpreter: `node FILE`, `python FILE`.",
        Start: ["os error 13)", "permission denied", "access is denied", "os error 5)"];
    /// The program is for another system, or a script without `#!`.
    CommandFormat = "command-format", Spawn, "it is no program for this system%command",
        "It was built for another processor or system, or is a script without a `#!` line.",
        Start: ["os error 8)", "exec format", "os error 193)"],
        Program: ["exec format error", "bad cpu type"];
    /// The system does not start the program for another reason.
    NotStarted = "not-started", Spawn, "", "Start the same command in a shell: the system refuses it.";
    /// The registry does not have the package.
    PackageNotFound = "package-not-found", Spawn, "", "Is the name of the package right, and its version? A private one needs a login.",
        Program: ["not found - get ", "the requested resource", " e404", "is not in this registry", "not found in the package registry",
            "no matching distribution", "no solution found when resolving", " etarget", "no matching version",
            "failed to resolve package", "does not appear to be a python project"];
    /// The registry of packages cannot be reached.
    RegistryUnreachable = "registry-unreachable", Spawn, "",
        "Is there a network, and do its proxies let the registry of packages through?",
        Program: ["request to https://registry", "network request to",  "failed to fetch: `https://pypi",
            "error sending request for url", "registry.npmjs.org failed", "max retries exceeded with url"];
    /// There is no such container image.
    ImageNotFound = "image-not-found", Spawn, "", "Is the name of the image right? A private one needs `docker login`.",
        Program: ["pull access denied", "manifest unknown", "manifest for", "repository does not exist", "no such image"];
    /// Docker or Podman does not run.
    ContainerEngineDown = "container-engine-down", Spawn, "", "Start Docker, or what runs containers here.",
        Program: ["cannot connect to the docker daemon", "is the docker daemon running", "docker daemon is not running",
            "cannot connect to podman", "failed to connect to the docker api"];
    /// Another program uses the port.
    PortInUse = "port-in-use", Spawn, "", "End what uses the port, often the same server, or give it another one.",
        Program: ["eaddrinuse", "address already in use", "port is already allocated", "only one usage of each socket address"];
    /// The script that an interpreter is to run does not exist.
    ScriptMissing = "script-missing", Spawn, "",
        "Is the path of the script right, and is it built? Relative paths begin at the folder that the program is started in.",
        Program: ["cannot find module '/", "cannot find module '*:\\", "can't open file", "unable to access jarfile"];
    /// A module or library is missing.
    ModuleMissing = "module-missing", Spawn, "", "Install what it depends on: `npm install`, `pip install`, in its own environment.",
        Program: ["cannot find module", "cannot find package", "err_module_not_found", "no module named", "modulenotfounderror",
            "importerror", "cannot open shared object file", "dll load failed", "library not loaded"];
    /// The runtime is of a version that the program does not support.
    RuntimeVersion = "runtime-version", Spawn, "", "Use the version of Node.js, Python or Java that it asks for.",
        Program: ["unsupported engine", "not compatible with your version", "ebadengine", "requires node", "requires python", "requires a different python",
            "unsupportedclassversionerror", "syntaxerror: unexpected token '?", "unknown file extension", "err_unknown_file_extension",
            "node.js version", "err_require_esm"];
    /// An argument is missing or wrong.
    ArgumentInvalid = "argument-invalid", Spawn, "", "Add to its arguments what it asks for; `--help` lists them.",
        Program: ["required arguments were not provided", "the following arguments are required", "missing required argument",
            "unexpected argument", "unrecognized argument", "unrecognized option", "unknown option", "unrecognized subcommand",
            "no such option", "missing option", "missing argument", "invalid value for", "\nusage:", "unknown command"];
    /// A variable of the environment, a key or another setting is missing.
    SettingMissing = "setting-missing", Spawn, "",
        "Set it in the environment that the program gets: in the `env` of its entry, or in this shell.",
        Program: ["is not set", "not set in", "must be set", "environment variable", "missing required", "keyerror: '",
            "missing env", "no api key", "missing api key"],
        ProgramHint: ["is required", "are required", "is missing", "is undefined", "not provided", "not configured",
            "field required", "api key", "api_key", "apikey", "access token", "no token"];
    /// Its credentials are refused.
    CredentialRefused = "credential-refused", Spawn, "", "Is the key or the token in its environment still valid, and for this service?",
        Program: ["401 unauthorized", "bad credentials", "invalid api key", "incorrect api key", "invalid token",
            "invalid access token", "invalid_auth", "authentication failed", "unauthenticated", "key has expired", "key expired",
            "token has expired", "token expired", "expired token"];
    /// Memory ran out.
    OutOfMemory = "out-of-memory", Spawn, "", "Give it more memory, or less to do.",
        Program: ["heap out of memory", "out of memory", "memoryerror", "memory allocation of"];
    /// What the program itself connects to is not there.
    BackendUnreachable = "backend-unreachable", Spawn, "", "The program runs, and does not reach what it connects to: is that running?",
        Program: ["econnrefused", "connection refused", " enotfound", "etimedout", "eai_again", "could not connect to server",
            "connectionrefusederror", "connecterror"];
    /// A file or folder is missing.
    FileMissing = "file-missing", Spawn, "", "Is the path right? Relative ones begin at the folder that the program is started in.",
        Program: ["enoent", "no such file or directory", "filenotfounderror", "cannot find the path", "does not exist", "not a directory"];
    /// The program may not do something.
    PermissionDenied = "permission-denied", Spawn, "", "Give the user who starts it the right to that file or port.",
        Program: ["eacces", " eperm", "permission denied", "permissionerror", "access is denied", "operation not permitted"];
    /// The program closed its standard input or output, and went on.
    PipeClosed = "pipe-closed", Spawn, "it closed its standard input or output, and did not end",
        "A server over stdio keeps both open. Does this command go on in the background?";
    /// A signal ended the program.
    Killed = "killed", Spawn, "a signal ended it", "Something ended it: the system for lack of memory, a limit, another program.";
    /// The program crashed.
    Crashed = "crashed", Spawn, "", "This is a fault of the server: its whole standard error tells its authors where.",
        Program: ["panicked at", "panic:", "segmentation fault", "core dumped", "fatal error:"];
    /// The program exited, and said why in words of its own.
    Exited = "exited", Spawn, "", "Its own words say why; its whole standard error may tell more.";
    /// The program exited without a word.
    ExitedSilently = "exited-silently", Spawn, "it exited without a word",
        "Does it need an argument to speak MCP over stdio (`stdio`, `mcp`, `serve`)? Start it in a shell.";
    /// The URL cannot be used.
    UrlInvalid = "url-invalid", Transport, "", "A URL of an MCP server is `http://…` or `https://…` with a host.",
        Network: ["`url` is invalid", "invalid url", "is not a url", "scheme is not", "unsupported scheme", "invalid uri"];
    /// There is no host of this name.
    HostUnknown = "host-unknown", Transport, "there is no host of this name",
        "Is the host's name spelt right? A private one needs its network or VPN.",
        Network: ["failed to lookup address", "name or service not known", "nodename nor servname", "no such host",
            "name resolution", "dns error", "no address"];
    /// A proxy refuses, or cannot be reached.
    ProxyRefused = "proxy-refused", Transport, "", "The proxy, of the environment (`HTTPS_PROXY`) unless the host names another, is not there or does not let this through; `NO_PROXY` goes without it.",
        Network: [" proxy", "tunnel error"];
    /// The server's port speaks no TLS.
    TlsNotSpoken = "tls-not-spoken", Tls, "it does not speak TLS at this port", "Is it `http://` instead of `https://`, or another port?",
        Network: ["invalidcontenttype", "corrupt message", "wrong version number", "record overflow"];
    /// The server's certificate has an issuer that is not known.
    CertificateIssuer = "certificate-issuer", Tls, "its certificate is signed by an unknown authority",
        "A certificate of one's own authority has to be among the trusted ones: `SSL_CERT_FILE` names the file.",
        Network: ["unknownissuer", "unknown issuer", "self-signed", "self signed", "caused by an untrusted", "unable to get local issuer",
            "not trusted", "caused as end entity", "causedasendentity"];
    /// The server's certificate is not valid any more, or not yet.
    CertificateExpired = "certificate-expired", Tls, "its certificate has expired, or is not valid yet",
        "The server's operator has to renew it; is the clock of this machine right?",
        Network: ["certificate expired", "has expired", "not valid yet", "notvalidyet"];
    /// The server's certificate is for other names.
    CertificateName = "certificate-name", Tls, "its certificate is for another name",
        "Use the host name that the certificate has.",
        Network: ["notvalidforname", "not valid for name", "hostname mismatch", "name mismatch"];
    /// The server demands a certificate of the client.
    ClientCertificateRequired = "client-certificate-required", Tls, "it demands a certificate of the client",
        "Its operator gives one out, which the host that connects has to show.",
        Network: ["certificaterequired", "certificate required"];
    /// Another failure of TLS.
    TlsFailed = "tls-failed", Tls, "", "The two ends agree on no secure connection: is a proxy in between, or is the server's TLS old?",
        Network: ["certificate", " tls", "handshake failure", "fatal alert"];
    /// Nobody listens at the port.
    NobodyListens = "nobody-listens", Transport, "nobody listens", "Is the server running, and are host and port right?",
        Network: ["connection refused", "os error 111)", "os error 61)", "os error 10061)", "actively refused"];
    /// No way leads to the host.
    NetworkUnreachable = "network-unreachable", Transport, "no way leads to its network", "Is this machine connected, and the VPN on?",
        Network: ["unreachable", "no route to host", "network is down"];
    /// No connection came about in time.
    ConnectTimeout = "connect-timeout", Transport, "no connection came about in time",
        "Something drops what is sent there: a firewall, a wrong address, a machine that is down.",
        Network: ["timed out", "timeout", "deadline has elapsed"];
    /// The connection was reset.
    ConnectionReset = "connection-reset", Transport, "the connection was reset", "The server, or a proxy in between, ended it: its log may say why.",
        Network: ["connection reset", "reset by peer", "broken pipe", "closed before", "unexpected eof", "incomplete"];
    /// It cannot be reached for another reason.
    Unreachable = "unreachable", Transport, "", "Is the server running, and is the URL right: http or https, host, port?";
    /// The server speaks TLS at this port, and was asked without.
    TlsRequired = "tls-required", Http, "it wants TLS at this port", "Use `https://`.",
        Answer: ["http request to an https server", "http request was sent to https", "plain http request was sent"];
    /// The server demands a token.
    TokenRequired = "token-required", Authorization, "it demands a token, or does not accept the one that it gets",
        "Sign in, or give it a token of its own in an `Authorization` header; one that it gets may have expired, or be for another server.";
    /// The sign-in failed.
    SignInFailed = "sign-in-failed", Authorization, "", "Each step of the sign-in has its own words; `mcp-probe auth URL` shows them.";
    /// The server accepts only other names of host or origin.
    HostRefused = "host-refused", Authorization, "", "It answers only to a host name that it was told, often `localhost`: use that one, or add this one to its settings.",
        Answer: ["invalid host", "host not allowed", "misdirected", "http 421", "dns rebinding", "invalid origin", "origin not allowed"];
    /// The server refuses who asks.
    AccessRefused = "access-refused", Authorization, "it refuses who asks", "The token or the account lacks a right; or the server answers only to some hosts.";
    /// Nothing is at the path.
    PathNotFound = "path-not-found", Http, "there is no MCP endpoint at this path", "Is the path right? It is often `/mcp` or `/sse`.",
        Answer: ["http 404", "http 410"];
    /// What is at the path takes no messages.
    MethodRefused = "method-refused", Http, "what is at this path takes no messages of MCP", "Is the path right? It is often `/mcp` or `/sse`.",
        Answer: ["http 405"];
    /// A page for people, or another answer that is not MCP.
    WebPage = "web-page", Http, "a page for people is here, and not MCP", "Is the path right? It is often `/mcp` or `/sse`. A login page or a proxy may be in between, too.",
        Answer: ["text/html", "<!doctype", "<html"];
    /// Too many requests.
    RateLimited = "rate-limited", Http, "it takes no more requests for now", "Wait, or ask for a higher limit.", Answer: ["http 429"];
    /// A gateway in front of the server has no answer of it.
    GatewayFault = "gateway-fault", Http, "a gateway is there, and no server behind it answers", "Is the server behind the gateway running?",
        Answer: ["http 502", "http 503", "http 504"];
    /// The server failed.
    ServerFault = "server-fault", Http, "", "The fault is in the server: its log says more.", Answer: ["http 5"];
    /// Standard output repeats standard input.
    Echo = "echo", Handshake, "it repeats what it is sent", "Is this command an MCP server? `cat` and terminals do this.",
        Answer: ["the client does not offer initialize", "the client does not offer server/discover"];
    /// The server supports only versions that this client does not have, or excludes.
    VersionUnsupported = "version-unsupported", Handshake, "", "Try a newer or an older version of the server; an option may exclude the era that it speaks.",
        Answer: ["only an era", "no version in common", "unsupported protocol version"];
    /// Standard output has something other than MCP.
    NotMcp = "not-mcp", Handshake, "what it writes to standard output is not MCP",
        "Is this command an MCP server? What it logs belongs on standard error.";
    /// The server says nothing.
    Silent = "silent", Handshake, "it runs, and does not answer", "Does it speak MCP here at all? Some programs need an argument (`stdio`, `mcp`, `serve`), some wait for a login or a download.";
    /// A server over HTTP does not answer.
    NoAnswer = "no-answer", Handshake, "it takes requests, and does not answer",
        "Is this the URL of its MCP endpoint, often `/mcp` or `/sse`? A proxy in between may keep the answer back.";
    /// The server refused the handshake.
    HandshakeRefused = "handshake-refused", Handshake, "", "Its own words say what it wants.";
    /// An answer that no reading makes sense of.
    AnswerInvalid = "answer-invalid", Handshake, "", "What answers is no MCP server, or has a fault.";
    /// A list is not answered.
    ListSilent = "list-silent", Discovery, "it does not answer the request of a list", "Is it merely slow? Its log may say what it does.",
        Answer: ["no response within", "not done within"];
    /// A list that the server declares failed.
    ListFailed = "list-failed", Discovery, "", "The server declares the family and cannot list it: often it lacks a setting or credentials.";
    /// Sessions expire as soon as they are opened.
    SessionsExpire = "sessions-expire", Call, "its sessions expire as soon as they are opened", "Several instances behind one address have to share their sessions, or the address has to keep a client at one.",
        Answer: ["expire as soon as", "sessions of"];
    /// The connection ended.
    ConnectionLost = "connection-lost", Call, "", "The server, or a proxy in between, ended the connection: its log may say why.";
    /// The server asks faster than the client answers.
    Overrun = "overrun", Call, "it sends requests faster than they are answered", "The server has a fault: it asks again and again.";
}

impl FailureCause {
    /// The first cause that these words, in lower case, give away.
    pub(super) fn of(source: Source, words: &str) -> Option<Self> {
        let hint = || Self::by_signs(Source::ProgramHint, words).filter(|_| source == Source::Program);
        Self::by_signs(source, words).or_else(hint)
    }

    fn by_signs(source: Source, words: &str) -> Option<Self> {
        let is_sign = |sign: &&str| match sign.strip_prefix('\n') {
            Some(beginning) => words.starts_with(beginning),
            None => match sign.split_once('*') {
                Some((one, other)) => words.split_once(one).is_some_and(|(_, rest)| rest.contains(other)),
                None => words.contains(*sign),
            },
        };
        Self::ALL.iter().copied().find(|cause| cause.signs(source).iter().any(is_sign))
    }

    /// What a program that runs waits for, or does in place of its task.
    pub(super) const fn is_awaited(self) -> bool {
        matches!(self, Self::ConsentAwaited | Self::LoginAwaited | Self::ServesHttp | Self::Downloading)
    }
}

impl fmt::Display for FailureCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
