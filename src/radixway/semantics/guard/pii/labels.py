"""Names that models and corpora give the published types."""

from __future__ import annotations

SOFT_TYPES = ("PERSON", "ORGANIZATION", "GPE", "NRP", "AGE", "STREET_ADDRESS", "DATE_TIME", "ZIP_CODE")
"""Types without a form, which a head finds. Half of all questions have one that is nobody's."""

_FOLDED = {
    "PERSON": "PERSON PER NAME FIRSTNAME LASTNAME MIDDLENAME FULLNAME GIVENNAME SURNAME FIRST_NAME LAST_NAME",
    "ORGANIZATION": "ORGANIZATION ORGANISATION ORG COMPANY COMPANYNAME COMPANY_NAME",
    "GPE": "GPE LOC LOCATION CITY STATE COUNTY COUNTRY",
    "NRP": "NRP NORP NATIONALITY RELIGION",
    "AGE": "AGE",
    "STREET_ADDRESS": "STREET_ADDRESS ADDRESS STREET BUILDINGNUMBER STREETADDRESS SECONDARYADDRESS",
    "DATE_TIME": "DATE_TIME DATE TIME DOB DATETIME DATEOFBIRTH",
    "ZIP_CODE": "ZIP_CODE ZIP ZIPCODE POSTCODE POSTAL_CODE",
    "EMAIL_ADDRESS": "EMAIL_ADDRESS EMAIL",
    "PHONE_NUMBER": "PHONE_NUMBER PHONE TELEPHONENUM PHONENUMBER TELEPHONE",
    "CREDIT_CARD": "CREDIT_CARD CREDITCARDNUMBER CREDIT_CARD_NUMBER CREDITCARD",
    "IBAN_CODE": "IBAN_CODE IBAN",
    "US_SSN": "US_SSN SSN SOCIALNUM",
    "US_DRIVER_LICENSE": "US_DRIVER_LICENSE DRIVERLICENSENUM DRIVER_LICENSE",
    "IP_ADDRESS": "IP_ADDRESS IP IPV4 IPV6",
    "DOMAIN_NAME": "DOMAIN_NAME URL DOMAIN",
}
_PUBLISHED = {label: name for name, labels in _FOLDED.items() for label in labels.split()}


def published_type(label: str) -> str:
    """Fold `label` (`B-PER`, `GIVENNAME`, `person`) to `PERSON`; an unknown one stays, in capitals."""
    bare = label.upper().replace("-", "_").replace(" ", "_").removeprefix("B_").removeprefix("I_")
    return _PUBLISHED.get(bare, bare)
