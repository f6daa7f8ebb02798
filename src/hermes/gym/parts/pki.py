"""A certificate authority that issues two pairs, one of them long ago, and is then gone."""

from hermes.gym.dice import Dice

AUTHORITY = "/etc/pki/authority.pem"
_SETUP = """\
set -e
work=$(mktemp -d)
cd $work
touch index.txt
cat > own.cnf <<END
[req]
distinguished_name = dn
prompt = no
x509_extensions = authority
[dn]
CN = {authority} root
[authority]
basicConstraints = critical,CA:true
keyUsage = critical,keyCertSign,cRLSign
subjectKeyIdentifier = hash
[leaf]
subjectAltName = DNS:{domain}
basicConstraints = critical,CA:false
keyUsage = critical,digitalSignature
extendedKeyUsage = serverAuth
subjectKeyIdentifier = hash
authorityKeyIdentifier = keyid
[ca]
default_ca = own
[own]
database = index.txt
new_certs_dir = .
rand_serial = yes
default_md = sha256
policy = any
x509_extensions = leaf
unique_subject = no
[any]
commonName = supplied
END
mkdir -p $(dirname {file}) $(dirname {live})
curve="-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -config own.cnf"
openssl req -x509 $curve -days 4000 -keyout ca.key -out {file}
issue() {{
  mkdir -p $1
  openssl req $curve -subj /CN={domain} -keyout $1/privkey.pem -out request
  openssl ca -batch -notext -config own.cnf -keyfile ca.key -cert {file} -in request \\
    -out $1/fullchain.pem -startdate $(date -u -d "$2" +%Y%m%d%H%M%SZ) \\
    -enddate $(date -u -d "$3" +%Y%m%d%H%M%SZ)
}}
issue {old} '-{age} days' '-{over} minutes'
issue {new} '-{fresh} days' '+{left} days'
cp {new}/fullchain.pem {live}.crt
cp {new}/privkey.pem {live}.key
cd /
rm -rf $work /run/first-pairs
"""


def first_pairs(dice: Dice, domain: str, live: str, *, old: str, new: str) -> str:
    """A script for `/run/first-pairs`: the pair that has run out, and the one that has not."""
    return _SETUP.format(
        authority=dice.word(),
        domain=domain,
        file=AUTHORITY,
        live=live,
        old=old,
        new=new,
        age=dice.pick((90, 180, 365)),
        over=dice.number(4, 50),
        fresh=dice.number(3, 12),
        left=dice.pick((80, 170, 355)),
    )
