"""Every secret here is made up and broken by `¦`, so that a scanner of this repository has nothing to find; « » mark what has to go."""

from __future__ import annotations

import pytest

from vault_mem.redact import redact

PEM = "FAKEfakeFAKE0000fakeFAKE1111fakeFAKE2222fakeFAKE3333fakeFAKE4444"
MIXED = "FAKEfakeFAKEfakeFAKEfakeFAKEfake0000"

SECRETS = [
    # tokens of well-known issuers
    ("aws", "aws key «AK¦IAFAKEFAKEFAKEFAKE» for the bucket"),
    ("aws", "temporary «AS¦IAFAKEFAKEFAKE0001», valid for an hour"),
    ("aws", "Credential=«AK¦IAFAKEFAKEFAKEFAKE»/20260105/us-east-1/s3/aws4_request"),
    ("aws", "«AK¦IAFAKEFAKEFAKEFAKE», «FAKEfakeFAKE/fakeFAKE+fakeFAKEfakeFAKE123» in the csv"),
    ("github", "gh «gh¦p_FAKEfakeFAKEfakeFAKEfakeFAKEfake0000» used by ci"),
    ("github", "oauth (gho) `«gh¦o_FAKEfakeFAKEfakeFAKEfakeFAKEfake0000»` leaked"),
    (
        "github",
        "the app's «gh¦s_FAKEfakeFAKEfakeFAKEfakeFAKEfake0000», refreshed by «gh¦r_FAKEfakeFAKEfakeFAKEfakeFAKEfake0000»",
    ),
    ("github", "pat «github¦_pat_11FAKEFAKE0FAKEFAKEFAKE_FAKEFAKEFAKEFAKEFAKEFAKEFAKEFAKEFAKE» for the bot"),
    ("github", "one per line:\\n«gh¦p_FAKEfakeFAKEfakeFAKEfakeFAKEfake0000»\\nand more"),
    ("github", "https://x.example/?t%3D«gh¦p_FAKEfakeFAKEfakeFAKEfakeFAKEfake0000»"),
    ("github", "cut by the terminal: «gh¦p_FAKEfakeFAKEfakeFAKEfa»"),
    ("gitlab", "gitlab «gl¦pat-FAKEfakeFAKEfake0000» expired"),
    ("gitlab", "the runner's «gl¦rt-FAKEfakeFAKEfake0000» too"),
    ("slack", "slack «xo¦xb-111111111111-222222222222-FAKEfakeFAKEfakeFAKEfake» in channel"),
    ("slack", "app level «xa¦pp-1-A0FAKE00000-111111111111-fakefakefakefake0000»"),
    ("slack", "post to https://«hooks¦.slack.com/services/T0FAKE000/B0FAKE000/FAKEfakeFAKEfakeFAKEfake» please"),
    (
        "discord",
        "post to https://discord.com«/api¦/webhooks/111111111111111111/FAKEfake-FAKEfake_FAKEfake0000FAKEfake0000» now",
    ),
    ("discord", "bot «MTFAKEfakeFAKEfakeFAKEfa¦.GFAKE0.FAKEfakeFAKEfakeFAKEfakeFAKEfake00» is live"),
    ("telegram", "bot «123456789:¦AAFAKEfakeFAKEfakeFAKEfakeFAKEfake0» started"),
    ("telegram", "GET https://api.telegram.org/bot«123456789:¦AAFAKEfakeFAKEfakeFAKEfakeFAKEfake0»/getMe"),
    ("stripe", "charge with «sk¦_live_FAKEfakeFAKEfakeFAKEfake» fails"),
    ("stripe", "restricted «rk¦_live_FAKEfakeFAKEfakeFAKEfake», test «sk¦_test_FAKEfakeFAKEfakeFAKEfake»"),
    ("webhook", "the endpoint signs with «wh¦sec_FAKEfakeFAKEfakeFAKEfakeFAKE0000»"),
    ("openai", "openai «sk¦-proj-FAKEfakeFAKEfakeFAKEfakeFAKEfakeFAKEfake0000» for embeddings"),
    ("openai", "the old kind «sk¦-FAKEfakeFAKEfakeFAKET3BlbkFJFAKEfakeFAKEfakeFAKE» works"),
    ("openai", "deepseek has «sk¦-0123456789abcdef0123456789abcdef» too"),
    ("anthropic", "anthropic «sk¦-ant-api03-FAKEfakeFAKEfakeFAKEfake_FAKEfakeFAKE-fakeFAKEfakeFAKEfAA» here"),
    ("openrouter", "router «sk¦-or-v1-0123456789abcdef0123456789abcdef0123456789abcdef»"),
    ("google", "google «AI¦zaFAKEfakeFAKEfakeFAKEfakeFAKEfakeFAK» for maps"),
    ("google", "oauth «ya¦29.a0FAKEfakeFAKEfakeFAKE-fakeFAKE_fake» expires"),
    ("google", "client «GO¦CSPX-FAKEfakeFAKEfakeFAKEfake0000»"),
    ("npm", "//registry.example.org/:_authToken=«np¦m_FAKEfakeFAKEfakeFAKEfakeFAKEfake0000»"),
    ("pypi", "twine with «py¦pi-AgEIcHlwaS5vcmcFAKEfakeFAKEfakeFAKEfakeFAKEfakeFAKEfakeFAKEfakeFAKEfakeFAKEfake»"),
    ("huggingface", "hub «hf¦_FAKEfakeFAKEfakeFAKEfakeFAKEfake00» is read-only"),
    ("digitalocean", "doctl «do¦p_v1_0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef»"),
    ("sendgrid", "mail «S¦G.FAKEfakeFAKEfakeFAKEfa.FAKEfakeFAKEfakeFAKEfakeFAKEfakeFAKEfakeFAK»"),
    ("twilio", "sms «S¦K0123456789abcdef0123456789abcdef» rotated"),
    ("mailchimp", "list «0123456789abcdef0123456789abcdef¦-us12» is old"),
    (
        "azure",
        "DefaultEndpointsProtocol=https;AccountName=a;«Account¦Key=FAKEfakeFAKEfakeFAKEfakeFAKEfakeFAKEfake00/+==»;EndpointSuffix=x",
    ),
    ("azure", "https://a.blob.example/c?sv=2024-01-01«&¦sig=FAKEfakeFAKEfakeFAKE%2BfakeFAKEfake%3D»"),
    ("azure", "app «abc8¦Q~FAKEfakeFAKEfakeFAKEfakeFAKEfake00» expires"),
    ("vault", "vault login «hv¦s.FAKEfakeFAKEfakeFAKEfake0000»"),
    ("age", "identity «AGE¦-SECRET-KEY-1FAKEFAKEFAKEFAKEFAKEFAKEFAKEFAKE0000»"),
    ("docker", "«dckr¦_pat_FAKEfakeFAKEfakeFAKEfake» pushes"),
    ("shopify", "«shp¦at_0123456789abcdef0123456789abcdef» of the shop"),
    ("gitlab", "\x1b[31m«gl¦pat-FAKEfakeFAKEfake0000»\x1b[0m in colour"),
    ("jwt", "jwt «ey¦JhbGciOiJIUzI1NiJ9.eyJzdWIiOiJmYWtlLWZha2UifQ.FAKEfakeFAKEfakeFAKEfakeFAKEfakeFAK» in the cookie"),
    ("jwt", "unsigned as yet «ey¦JhbGciOiJub25lIn0.eyJzdWIiOiJmYWtlLWZha2UifQ»."),
    # keys in blocks
    (
        "pem",
        "key is «-----BEGIN ¦RSA PRIVATE KEY-----\nFAKEPEMLINEONEFAKEPEMLINEONE\nFAKEPEMLINETWO\n-----END RSA PRIVATE KEY-----» rotate it",
    ),
    (
        "pem",
        f"«-----BEGIN ¦OPENSSH PRIVATE KEY-----\r\n{PEM}\r\n{PEM}\r\nab==\r\n-----END OPENSSH PRIVATE KEY-----»\r\nthen",
    ),
    (
        "pem",
        f'"private_key": "«-----BEGIN ¦PRIVATE KEY-----\\n{PEM}\\nfake==\\n-----END PRIVATE KEY-----»\\n", "client_id": "1"',
    ),
    (
        "pem",
        f"«-----BEGIN ¦EC PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,00FF\n\n{PEM}\n{PEM}»\nand then the output stops",
    ),
    ("pem", f"printed «-----BEGIN ¦PRIVATE KEY-----\n{PEM}\n{PEM}\nFAKEfake0=»\nThe rest was cut"),
    ("pem", f"in JSON, cut: «-----BEGIN ¦PRIVATE KEY-----\\n{PEM}\\n{PEM}»\\nThe rest was cut"),
    ("pem", f"+«-----BEGIN ¦PRIVATE KEY-----\n+{PEM}\n+{PEM}\n+-----END PRIVATE KEY-----»\n context"),
    ("pem", f"folded: «-----BEGIN ¦RSA PRIVATE KEY----- {PEM} {PEM} -----END RSA PRIVATE KEY-----» thanks"),
    ("pem", f"the last lines are\n«{PEM}\nFAKEfake0000=\n»-----END ¦PRIVATE KEY-----\nas you see"),
    ("pem", f"client-key-data: «LS0t¦LS1CRUdJTiBSU0EgUFJJVkFURSBLRVktLS0tLQ{MIXED}»"),
    (
        "pgp",
        f"«-----BEGIN ¦PGP PRIVATE KEY BLOCK-----\nVersion: GnuPG v2\n\n{PEM}\n=FAK0\n-----END PGP PRIVATE KEY BLOCK-----» exported",
    ),
    # addresses
    ("url", "db postgres://admin:«FAKEPASSWORD77»@db.example.invalid:5432/prod is the main one"),
    ("url", "mongodb+srv://app:«FAKE%40pass»@cluster0.example.invalid/?retryWrites=true"),
    ("url", "redis://:«FAKEfake77»@cache.example.invalid:6379/0"),
    ("url", "mysql+pymysql://root:«p@ss:word77»@localhost/app"),
    ("url", 'DATABASE_URL="postgresql://app:«swordfish»@localhost/app"'),
    ("url", "remote https://oauth2:«FAKEfakeFAKE0000»@git.example.invalid/a/b.git"),
    ("url", "clone https://«0123456789abcdef0123456789abcdef01234567»@git.example.invalid/a/b.git"),
    ("url", "amqp://worker:«fa/ke#77»@mq.example.invalid/vhost"),
    # headers
    ("bearer", "curl with Authorization: Bearer «FAKEbearerFAKEbearerFAKEbearerFAKEbearer00» worked"),
    ("bearer", 'headers={"Authorization": "Bearer «FAKEbearer0000FAKE»"}'),
    ("bearer", "authorization: bearer «fakefake00»"),
    ("basic", "curl -H 'Authorization: Basic «YWRtaW46¦RkFLRXBhc3M3Nw==»' x"),
    ("basic", "sent Basic «YWRtaW46¦RkFLRXBhc3M3Nw==» instead"),
    ("authorization", "Authorization: Token «0123456789abcdef0123456789abcdef01234567»"),
    ("authorization", '"authorization": "«FAKEfake0000FAKE»"'),
    ("secret", "X-Api-Key: «FAKEfake0000FAKE»"),
    ("secret", "PRIVATE-TOKEN: «FAKEfake0000FAKE»"),
    ("cookie", "Set-Cookie: sid=«FAKEfake0000»; Path=/; HttpOnly; SameSite=Lax"),
    ("cookie", "Cookie: theme=dark; sessionid=«fakefake0000fakefake0000fakefake»"),
    ("cookie", "curl -b 'connect.sid=«s%3AFAKEfakeFAKEfake0000.FAKEfake»' x"),
    # names
    ("password", "password = «hunter2»"),
    ("password", "DB_PASSWORD=«hunter2hunter» in .env"),
    ("password", "export PGPASSWORD='«sword fish 7»'"),
    ("password", "POSTGRES_PASSWORD: «FAKEPASSWORD77»"),
    ("password", "PASSWORD: «FAKEPASSWORD77»"),
    ("password", "**Password:** «FAKEpass77»"),
    ("password", "Password: `«FAKEpass77»`"),
    ("password", "login with --password «FAKEpass77» --host x"),
    ("password", "login with --password=«swordfish» --host x"),
    ("password", 'password: str = "«hunter2»"'),
    ("password", 'const dbPassword = "«hunter2!»";'),
    ("password", '{"user": "app", "password": "«hunter2!»"}'),
    ("password", '{\\"password\\": \\"«hunter2!»\\"}'),
    ("password", "Server=db;Database=x;User Id=app;Password=«hunter2!»;Encrypt=true"),
    ("password", "host=db user=app password=«swordfish» dbname=x"),
    ("password", "https://x.example/login?user=a&password=«hunter22»&next=1"),
    ("password", "the password is «FAKEpass77», change it"),
    ("password", "password:\n\n«FAKEpass77»\n\nis what they sent"),
    ("password", "<password>«hunter2»</password>"),
    ("password", "ALTER USER app WITH PASSWORD '«hunter22»';"),
    ("password", "CREATE USER app IDENTIFIED BY '«swordfish»';"),
    ("password", "mysql -u root -p«Sw0rdfish» app"),
    ("password", "sshpass -p '«Sw0rdfish»' ssh host"),
    ("password", "curl -u admin:«FAKEpass77» https://x.example"),
    ("password", "machine x.example\n  login me\n  password «swordfish»"),
    ("password", "spring.datasource.password=«hunter2hunter»"),
    ("password", "smtp_pass: «hunter2!»"),
    ("password", "password: «swordfish»\nuser: app"),
    ("secret", "aws_secret_access_key = «FAKEfakeFAKE/fakeFAKE+fakeFAKEfakeFAKE123»"),
    ("secret", "aws configure set aws_secret_access_key «FAKEfakeFAKE/fakeFAKE+fakeFAKEfakeFAKE123»"),
    ("secret", 'api_key="«FAKEfake0000»"'),
    ("secret", "apiKey: '«0123456789abcdef0123456789abcdef»',"),
    ("secret", "client_secret: «FAKEfake0000FAKEfake»"),
    ("secret", "STRIPE_SECRET_KEY_TEST=«FAKEfake0000FAKEfake»"),
    ("secret", "API_TOKEN=«swordfish-FAKE-horse-battery»"),
    ("secret", "HEROKU_API_KEY=«11111111-2222-4333-8444-555555555555»"),
    ("secret", "TWILIO_AUTH_TOKEN: «0123456789abcdef0123456789abcdef»"),
    ("secret", "OPENAI_KEY=«FAKEfake0000FAKEfake»"),
    ("secret", 'os.environ["API_TOKEN"] = "«FAKEfake0000»"'),
    ("secret", 'monkeypatch.setenv("API_TOKEN", "«FAKEfake0000FAKEfake»")'),
    ("secret", '- name: API_TOKEN\n  value: "«FAKEfake0000»"'),
    ("secret", '{"name": "API_TOKEN", "value": "«FAKEfake0000»"}'),
    ("secret", "the api key is «FAKEfake0000FAKEfake» for now"),
    ("secret", "deploy --token «FAKEfake0000» --yes"),
    ("secret", "token=«0123456789abcdef0123456789abcdef01234567»"),
    ("secret", 'SECRET_KEY = "«django-insecure-fake0000&fake»"'),
    ("secret", "jwtSecret := «FAKEfake0000FAKEfake»"),
    ("secret", "GET /v1/items?access_token=«FAKEfake0000FAKEfake»&page=2"),
]

KEPT = """
No Firebase API key in the build at all.
apiKey: import.meta.env.VITE_KEY,
commit 7e103450192117aabbccddeeff00112233445566
id 11111111-2222-4333-8444-555555555555
sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08
the prefix sk- is used by several vendors
password: see 1Password entry "db"
AKIA is the prefix of AWS key ids
ghp_ tokens are classic PATs
https://user@example.invalid/path
Bearer tokens must be rotated
token=$TOKEN
apiKey: process.env.API_KEY,
const key = process.env.OPENAI_API_KEY ?? ""
api_key = os.environ["OPENAI_API_KEY"]
api_key=os.getenv("OPENAI_API_KEY", "")
password = getpass.getpass("Password: ")
token = get_token()
token = await client.fetchToken(id2);
password: str
password: string;
password?: string | null
password: Optional[str] = None
def login(user: str, password: str, token2: str) -> None:
login(user=user, password=password, token=self.token)
const { password, secret } = req.body
password = request.form["password"]
secret = config.secrets.api_v2
if (password !== confirmPassword) {
if not token: return None
Authorization: Bearer $TOKEN
Authorization: Bearer ${GITHUB_TOKEN}
Authorization: Bearer ${{ secrets.GITHUB_TOKEN }}
Authorization: Bearer <your-token>
-H "Authorization: Bearer {token}"
Bearer authentication replaces Basic authentication
Basic information about the project
the Authorization header was missing
API_TOKEN=<your-token>
API_KEY=xxxxxxxxxxxxxxxx
API_KEY=your_api_key_here
PASSWORD=********
Password: ***
password: ${DB_PASSWORD}
password: {{ vault_password }}
password: !vault |
password: ENC[AES256_GCM,data:abc123,iv:def456]
PASSWORD=$(cat /run/secrets/db)
password_file: /run/secrets/db_password
secretName: my-app-tls-2
secretKeyRef: {name: app, key: token}
secrets: inherit
tokens: 123456
max_tokens: 4096
max_tokens=200000
token_count = 12345678
TOKEN_TTL=86400s
token_url: https://auth.example.invalid/oauth2/token
token_type: bearer
token usage: 12345 in, 678 out
nextPageToken: abc123def456
tokenizer = AutoTokenizer.from_pretrained("model-7b-v2")
the password must have 12 characters
the password is hashed with PBKDF2-SHA256
password: required|min:8|max:64
password: bcrypt
forgot password?
the --password flag is deprecated
use --token to authenticate
pass --password-stdin instead
docker run -u 1000:1000 -p 8080:8080 image
docker run --user node:node image
ssh -p 2222 host
mkdir -p build/password
mysql -u root -p app
cat ~/.ssh/id_rsa.pub: ssh-rsa AAAAB3NzaC1yc2EAAAADAQABAAABgQC7fakeFAKE user@host
the file starts with -----BEGIN RSA PRIVATE KEY----- and ends with -----END RSA PRIVATE KEY-----
SHA256:FAKEfakeFAKEfakeFAKEfakeFAKEfakeFAKEfake00 (ED25519)
"integrity": "sha512-FAKEfakeFAKEfakeFAKEfakeFAKEfakeFAKEfakeFAKEfake00=="
resolved "https://registry.example.org/a/-/a-1.0.0.tgz#0123456789abcdef0123456789abcdef01234567"
+sha256 = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"
index 7e10345..019211 100644
data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk
eyJ is how a JWT starts
sk-learn and scikit-learn are the same
sk-learn-feature-selection-pipeline-experiments
task-0123456789abcdef0123456789abcdef
disk-FAKEfakeFAKEfakeFAKEfake0000
risk-assessment-of-the-quarter
npm_config_registry and npm_lifecycle_event
from huggingface_hub import hf_hub_download
the xoxb- prefix means bot, xoxp- a person
AIza is the prefix of Google keys
sk_live_ keys never go to the client
pk_live_ is publishable
pypi-publish-action and pypi-package-with-a-long-name
git@github.com:acme/app.git
ssh://git@example.invalid:22/app.git
http://localhost:8080/@scope/package
https://example.invalid/a:b@c
https://example.invalid/?q=a:b@c.d
postgres://localhost:5432/app
postgres://user:password@localhost/app
postgres://${USER}:${PASSWORD}@db/app
https://<user>:<password>@host/path
npm i @types/node@20.1.0 from https://registry.example.org
mailto:someone@example.invalid
cookie: string
document.cookie = "theme=dark"
Set-Cookie: theme=dark; Path=/
the cookie banner: consent=accepted
authors: Jane Doe <jane@example.invalid>
author = "0123456789abcdef"
cache-key: 0123456789abcdef0123456789abcdef
primary_key=True, foreign_key=users.id2
{"key": "0123456789abcdef0123"}
for key, value in pairs: key2 = value3
keyboard: Logitech MX3000
key: value
passed: 12, failed: 3
compass: N32E
bypass = 0x1234abcd
tests passed=12345678
secretary: Miss Moneypenny2
secret_santa_2024: tombola1
pwd: /home/user/project1
OLDPWD=/home/user/project1
"type": "password", "label": "Password"
autocomplete="current-password" name="password"
<input type="password" id="password1" placeholder="Password">
password_hash = bcrypt.hashpw(pw, bcrypt.gensalt(12))
CSRF token missing or incorrect
unexpected token: '<' at position 12345
SyntaxError: Unexpected token } in JSON at position 42
error TS1005: ';' expected near token 'const2'
auth: OAuth2 with PKCE
auth = HTTPBasicAuth(user1, pass1)
[redacted:password] was there before
password=[redacted:password] was there before
jest --testPathPattern=auth/token.spec.ts
src/auth/password-reset.test.ts:42:17
feat(auth): rotate token2 keys
session 11111111-2222-4333-8444-555555555555 at 10:00:00
12:34:56 GMT+0100, 2026-01-05T10:00:00.000Z
C:\\Users\\me\\secrets\\token1.txt
"""
NO_SECRETS = [line for line in KEPT.strip().splitlines() if line]


def _whole(text: str) -> str:
    return text.replace("¦", "").replace("«", "").replace("»", "")


def _expected(kind: str, text: str) -> str:
    first, *rest = text.replace("¦", "").split("«")
    return first + "".join(f"[redacted:{kind}]" + part.partition("»")[2] for part in rest)


@pytest.mark.parametrize(("kind", "text"), SECRETS, ids=range(len(SECRETS)))
def test_a_secret_goes_and_the_rest_of_the_sentence_stays(kind: str, text: str) -> None:
    assert redact(_whole(text)) == _expected(kind, text)


@pytest.mark.parametrize("text", NO_SECRETS)
def test_what_only_looks_like_a_secret_stays(text: str) -> None:
    assert redact(text) == text
