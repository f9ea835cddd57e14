//! Secrets that only the place says are such: which programs take one, and by which of their options or words.

/// Where one or more programs take a secret.
pub(super) struct SecretRule {
    pub programs: &'static [&'static str],
    /// The command of the program that it holds for, as `login` in `docker login -p`.
    pub command: Option<&'static str>,
    pub given: Given,
}

/// How a program takes a secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Given {
    /// `name:password` by one of these options; a name alone is none.
    UserAndPassword(&'static [&'static str]),
    /// By one of these options, in the next word or in the same one.
    Any(&'static [&'static str]),
    /// By one of these options, only in the same word.
    Attached(&'static [&'static str]),
    /// Every word behind it that is no option and no address.
    Words,
    /// In the word behind its name: `aws configure set aws_secret_access_key x`.
    AfterName,
}

use Given::{AfterName, Any, Attached, UserAndPassword, Words};

const fn rule(
    programs: &'static [&'static str],
    command: Option<&'static str>,
    given: Given,
) -> SecretRule {
    SecretRule {
        programs,
        command,
        given,
    }
}

pub(super) const RULES: [SecretRule; 24] = [
    rule(
        &["curl"],
        None,
        UserAndPassword(&["-u", "--user", "-U", "--proxy-user", "-E", "--cert"]),
    ),
    rule(&["curl"], None, Any(&["-b"])),
    rule(&["http", "https", "redis-cli"], None, Any(&["-a"])),
    rule(&["sshpass", "twine"], None, Any(&["-p"])),
    rule(
        &["mongo", "mongosh", "mongodump", "mongorestore"],
        None,
        Any(&["-p"]),
    ),
    rule(
        &["mysql", "mysqldump", "mysqladmin", "mariadb", "7z", "7za"],
        None,
        Attached(&["-p"]),
    ),
    rule(&["zip", "unzip", "sqlcmd", "ipmitool"], None, Any(&["-P"])),
    rule(&["ldapsearch", "ldapadd", "ldapmodify"], None, Any(&["-w"])),
    rule(&["smbclient"], None, Any(&["-U"])),
    rule(&["lftp"], None, Any(&["-u"])),
    rule(
        &["docker", "podman", "nerdctl", "buildah", "skopeo"],
        Some("login"),
        Any(&["-p"]),
    ),
    rule(
        &["helm", "oras", "crane", "apptainer", "singularity"],
        Some("login"),
        Any(&["-p"]),
    ),
    rule(&["az", "cf", "oc"], Some("login"), Any(&["-p"])),
    rule(&["swanlab"], Some("login"), Any(&["-k"])),
    rule(&["doctl"], Some("init"), Any(&["-t"])),
    rule(&["kaggle"], Some("set"), Any(&["-v"])),
    rule(&["wandb", "vault"], Some("login"), Words),
    rule(&["ngrok"], Some("authtoken"), Words),
    rule(&["ngrok"], Some("add-authtoken"), Words),
    rule(&["rclone"], Some("obscure"), Words),
    rule(&["mc"], Some("set"), Words),
    rule(
        &["git", "pip", "npm", "poetry", "conda", "rclone", "gh"],
        Some("config"),
        AfterName,
    ),
    rule(&["dvc"], Some("modify"), AfterName),
    rule(&["set", "setenv"], None, AfterName),
];

/// Of a program or of a command in the rules: longer words need not be compared.
const LONGEST_NAME: usize = "add-authtoken".len();

/// Programs whose `--user a:b` is a user and a group.
pub(super) const GROUPS: [&str; 7] = [
    "docker",
    "podman",
    "nerdctl",
    "apptainer",
    "singularity",
    "chown",
    "kubectl",
];

/// Options, whatever the program, that are followed by names and values in turn: `--opts API_KEY x LR 1`.
pub(super) const PAIRS: [&str; 16] = [
    "--opts",
    "--opt",
    "--options",
    "--cfg-options",
    "--cfg-opts",
    "--set",
    "--set-cfgs",
    "--override",
    "--overrides",
    "--config-override",
    "--config-overrides",
    "--cfg-override",
    "--hparams",
    "--params",
    "--kwargs",
    "-params",
];

/// Which rules hold, for the words of a command that have been seen.
pub(super) struct RulesInForce {
    programs: [bool; RULES.len()],
    rules: [bool; RULES.len()],
    pub has_groups: bool,
}

impl RulesInForce {
    pub(super) fn new() -> RulesInForce {
        RulesInForce {
            programs: [false; RULES.len()],
            rules: [false; RULES.len()],
            has_groups: false,
        }
    }

    pub(super) fn givens(&self) -> impl Iterator<Item = Given> {
        let holding = RULES.iter().zip(&self.rules);
        holding.filter_map(|(rule, holds)| holds.then_some(rule.given))
    }

    /// Takes in a word, for those behind it.
    pub(super) fn see(&mut self, word: &str) {
        let name = word.rsplit('/').next().unwrap_or_default();
        if name.is_empty() || name.len() > LONGEST_NAME {
            return;
        }
        self.has_groups |= GROUPS.contains(&name);
        for (n, rule) in RULES.iter().enumerate() {
            let names_it = rule.programs.contains(&name);
            self.rules[n] |= match rule.command {
                Some(command) => self.programs[n] && command == word,
                None => names_it,
            };
            self.programs[n] |= names_it;
        }
    }
}

pub(super) fn begins_pairs(option: &str) -> bool {
    let is_one = |pairs: &&str| {
        pairs.len() == option.len()
            && (pairs.bytes().zip(option.bytes()))
                .all(|(one, other)| one == other || one == b'-' && other == b'_')
    };
    PAIRS.iter().any(is_one)
}
